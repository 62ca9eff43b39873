#pragma once
#include <optional>

#include "common/base/clock.h"

namespace strobe::kube {

struct ReconcileResult {
  // When to reconcile again; none = at the next change.
  std::optional<Nanos> requeue_after{};
};

}  // namespace strobe::kube
