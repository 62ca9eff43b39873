// The groups of ranks that a program tells of itself. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "collector/trace/digest/digest.h"

namespace strobe::digest {

// What a communicator is called: "0 default_pg". PyTorch writes "undefined" where the program has
// given no description.
std::string CommunicatorName(std::string_view name, std::string_view description);

// The groups that the process is in, from what torch.profiler writes into each trace as
// "distributedInfo"; see _get_pg_config in torch/distributed/distributed_c10d.py. It is not
// trusted.
std::vector<Communicator> ProcessGroups(std::string_view distributed_info);

}  // namespace strobe::digest
