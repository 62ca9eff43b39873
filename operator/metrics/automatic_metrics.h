// The metrics of captures that start themselves: of alerts received, of ProfileTriggers and of
// ProfileSchedules. Safe for concurrent use.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "operator/schedule/schedule_ports.h"
#include "operator/trigger/ports.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace strobe::metrics {

class ReceiverMetrics final : public trigger::AlertReceiverObserver {
 public:
  explicit ReceiverMetrics(prometheus::Registry& registry);  // Must outlive it.
  ~ReceiverMetrics() override;

  void Answered(int code) override;
  void Read(std::size_t body_bytes) override;
  void Taken(std::size_t firing, std::size_t resolved) override;
  void Refused(std::string_view reason) override;
  void Dropped(std::string_view reason, std::uint64_t count) override;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

class TriggerAlertMetrics final : public trigger::Metrics {
 public:
  explicit TriggerAlertMetrics(prometheus::Registry& registry);  // Must outlive it.
  ~TriggerAlertMetrics() override;

  void AlertDecided(std::string_view outcome) override;
  void SignDecided(std::string_view sign, std::string_view outcome) override;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

class ScheduleRunMetrics final : public schedule::Metrics {
 public:
  explicit ScheduleRunMetrics(prometheus::Registry& registry);  // Must outlive it.
  ~ScheduleRunMetrics() override;

  void RunsCounted(const std::string& ns, std::string_view result, std::int64_t count) override;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace strobe::metrics
