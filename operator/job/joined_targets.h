// The targets of a request, put together to one capture. Pure.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/spec.h"
#include "operator/job/targets.h"

namespace strobe::job {

// What one target of a request selects.
struct TargetSelection {
  std::string name{};     // The target's; empty for a request with one.
  std::size_t least = 0;  // How many of its workers must end well.
  Selection selection{};
};

// "decode: ..." for a target with a name, else only the text.
std::string OfTarget(std::string_view name, std::string_view text);

struct JoinedTargets {
  std::vector<capture::Target> targets{};
  std::vector<capture::RoleWanted> roles{};  // See capture::Spec; empty for one target.
  std::size_t least = 0;                     // How many workers must end well in all.
  std::string note{}, job{};                 // See CountWords and Selection::job.
  std::optional<std::size_t> expected{};     // How many workers there should be; none = not known.
};

// InvalidArgument: a pod is in two targets, or there are too many workers. `selections` must not be
// empty.
absl::StatusOr<JoinedTargets> JoinTargets(std::vector<TargetSelection> selections);

}  // namespace strobe::job
