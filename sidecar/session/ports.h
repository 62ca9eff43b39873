// What a session needs from the world.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/base/clock.h"
#include "collector/base/mutex.h"
#include "collector/base/outcome.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// Set once by whoever cancels; sources wait on it instead of sleeping.
class Cancellation {
 public:
  void Cancel() { notification_.Notify(); }
  bool cancelled() const { return notification_.is_set(); }
  // True when cancelled before the time was up.
  bool WaitFor(Nanos duration) const { return notification_.WaitFor(duration); }

 private:
  Notification notification_;
};

struct Recording {
  Outcome outcome = Outcome::kUnknown;  // kOk: the source has no complaint of its own.
  std::string message{};
  std::string xspace{};  // May hold a part of the trace even when the outcome is a cause.
};

// Where a worker's events come from.
class Source {
 public:
  virtual ~Source() = default;
  // What can record at present. Returns by the deadline.
  virtual std::vector<v1::Source> Probe(Nanos timeout) = 0;
  // How long before the guard's start Record wants to be called.
  virtual Nanos lead() const = 0;
  // Records [instant - guard, instant + duration + guard) and returns when the trace is collected,
  // the plan's deadline has passed or the capture is cancelled. Calls `collecting` when it has
  // stopped recording. `terminate` ends the recording early but keeps what there is.
  virtual Recording Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                           const Cancellation& terminate,
                           const std::function<void()>& collecting) = 0;
};

// Where a finished trace goes. Returns its URL.
class Delivery {
 public:
  virtual ~Delivery() = default;
  virtual absl::StatusOr<std::string> Deliver(const v1::CapturePlan& plan,
                                              std::span<const std::string_view> pieces) = 0;
};

}  // namespace strobe::session
