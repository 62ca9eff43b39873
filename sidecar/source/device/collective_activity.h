// The collectives of one program, as read from the file in which it tells them.
#pragma once
#include <cstdint>
#include <vector>

#include "agent/wire/collective_file.h"

namespace strobe::source {

struct CollectiveActivity {
  wire::CollectiveLibrary library{};
  std::vector<wire::CommunicatorCopy> communicators{};
  std::vector<wire::CollectiveCopy> calls{};  // By number.
  std::uint64_t lost = 0;                     // Calls that were overwritten or did not fit.
};

}  // namespace strobe::source
