// The parts of a program, as a list of what starts, leads, drains and stops each of them.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/guard.h"
#include "common/base/status_macros.h"

namespace strobe {

// Functions that a part does not need are empty.
struct Part {
  const char* name = "";                  // For logs; see RunGuarded.
  std::function<absl::Status()> start{};  // Returns at once.
  std::function<void()> lead{};           // This process leads from now on.
  std::function<void()> drain{};          // The process is about to end.
  std::function<void()> stop{};           // Nothing of the part acts after it returns.
};

class Parts {
 public:
  explicit Parts(std::vector<Part> parts) : parts_(std::move(parts)) {}

  // Starts the parts in the order of the list, up to the first that fails.
  absl::Status Start() const {
    for (const Part& part : parts_) {
      if (part.start) RETURN_IF_ERROR(RunGuarded(part.name, part.start));
    }
    return absl::OkStatus();
  }
  // In the order of the list.
  void Lead() const {
    for (const Part& part : parts_) {
      if (part.lead) part.lead();
    }
  }
  // Drains the parts in the order of the list, then stops them in the reverse order. A part that
  // throws an exception does not keep the others from it.
  void Stop() const {
    for (const Part& part : parts_) {
      if (part.drain) (void)RunGuarded(part.name, part.drain);
    }
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      if (part->stop) (void)RunGuarded(part->name, part->stop);
    }
  }

 private:
  const std::vector<Part> parts_;
};

}  // namespace strobe
