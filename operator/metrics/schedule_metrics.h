// The metrics of ProfileSchedules.
#pragma once
#include <memory>
#include <string>

#include "operator/schedule/schedule_ports.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace strobe::metrics {

class ScheduleRunMetrics final : public schedule::ScheduleMetrics {
 public:
  explicit ScheduleRunMetrics(prometheus::Registry& registry);  // Must outlive it.
  ~ScheduleRunMetrics() override;

  void RunsCounted(const std::string& ns, std::string_view result, std::int64_t count) override;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace strobe::metrics
