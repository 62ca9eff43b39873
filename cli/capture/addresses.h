// Parses the addresses of workers on a command line.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/spec.h"

namespace strobe::cli {

// Parses a comma list of host:port or grpc://host:port, with IPv6 addresses in brackets. Each entry
// becomes a target. Its name is the address, its rank is its place in the list, and its file name
// is the address with unsafe characters replaced. If each entry has a role before it, as in
// "prefill=host:port", ranks are places among the entries of the role, and the role begins the file
// name. InvalidArgument says which entry is wrong and how to write it.
absl::StatusOr<std::vector<capture::Target>> ParseWorkers(std::string_view list);

}  // namespace strobe::cli
