// Compares the step times of a job's workers. Pure; bounded.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "operator/trigger/sign.h"

namespace strobe::trigger {

// Only one thread may use it at a time.
class RankPace {
 public:
  // At least this many other workers must have told the times of the same loop lately.
  static constexpr std::size_t kMinOthers = 3;

  // `group` names the job and who asks, and `worker` one of its processes. Returns a sign when the
  // worker has been slower than the others for `asked.steps` steps. Returns it once, and again only
  // after the worker was not slower.
  std::optional<ReportedSign> Take(const std::string& group, const std::string& worker,
                                   const ReportedStepTime& told, const SlowSteps& asked,
                                   MonoTime now);
  // Workers that were not remembered, because there are too many.
  std::size_t dropped() const { return dropped_; }
  std::size_t size() const { return size_; }

 private:
  struct Worker {
    Nanos step{};
    MonoTime reported_at{};
    std::uint32_t slow_steps = 0;
    MonoTime since{};  // The latest time at which the first of the slow steps can have begun.
    bool found = false;
  };
  struct Usual {
    double median = 0, most = 0;  // In ns; `most` is what three quarters do not exceed.
  };

  std::optional<Usual> UsualOfOthers(const std::map<std::string, Worker>& workers,
                                     const std::string& but, MonoTime now) const;
  void Forget(MonoTime now);

  std::map<std::string, std::map<std::string, Worker>> groups_;  // By group and loop.
  std::size_t size_ = 0, dropped_ = 0;
  MonoTime forgot_{};
};

}  // namespace strobe::trigger
