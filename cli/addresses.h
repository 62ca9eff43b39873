// What people write for workers on a command line.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/core/capture_spec.h"

namespace strobe {

// A comma list of host:port or grpc://host:port, IPv6 in brackets; becomes one target each, named
// "host_port". The error says which entry is wrong and how to write it.
absl::StatusOr<std::vector<Target>> ParseWorkers(std::string_view list);

// Is this host:port on this machine by name (localhost, 127.x, ::1)?
bool IsLoopback(std::string_view address);

}  // namespace strobe
