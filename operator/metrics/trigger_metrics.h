// The metrics of ProfileTriggers.
#pragma once
#include <memory>
#include <string_view>

#include "operator/trigger/trigger_ports.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace strobe::metrics {

class TriggerAlertMetrics final : public trigger::TriggerMetrics {
 public:
  explicit TriggerAlertMetrics(prometheus::Registry& registry);  // Must outlive it.
  ~TriggerAlertMetrics() override;

  void AlertDecided(std::string_view outcome) override;
  void SignDecided(std::string_view sign, std::string_view outcome) override;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace strobe::metrics
