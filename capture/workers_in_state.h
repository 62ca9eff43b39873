// What a number of workers of a capture do at the moment.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace strobe::capture {

// The workers in one state: "Waiting" for their answer to preflight, "Ready", "Arming", "Armed",
// "Recording", "Collecting", "Uploading", or the name of the outcome with which they ended.
struct WorkersInState {
  std::string state{};
  std::size_t workers = 0;
  std::vector<std::string> names{};  // In the order of the targets; at most kMaxNamesInState.

  bool operator==(const WorkersInState&) const = default;
};
inline constexpr std::size_t kMaxNamesInState = 16;

}  // namespace strobe::capture
