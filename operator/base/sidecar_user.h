// The user and group that an injected sidecar runs as. Plain values.
#pragma once
#include <cstdint>

namespace strobe::kube {

struct SidecarUser {
  std::int64_t user = 0, group = 0;
  bool operator==(const SidecarUser&) const = default;
};

// The ids that Kubernetes accepts (pkg/apis/core/validation of Kubernetes 1.34), without root.
constexpr bool IsSidecarId(std::int64_t id) { return id >= 1 && id <= 2147483647; }

}  // namespace strobe::kube
