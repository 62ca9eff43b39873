// Why an attempt waits for workers, human-readable. Pure.
#pragma once
#include <string>

#include "operator/job/targets.h"

namespace strobe {

struct PendingReason {
  std::string reason{};   // A condition's reason: one CamelCase word.
  std::string message{};  // A condition's message.
};

// What keeps a capture of `selection` from beginning with all of its workers.
PendingReason WhyPending(const Selection& selection);

}  // namespace strobe
