#include "operator/metrics/trigger_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <string>

#include "operator/trigger/sign.h"

namespace strobe::metrics {

struct TriggerAlertMetrics::Families {
  explicit Families(prometheus::Registry& registry) : of(registry) {
    // So that the first alert is an increase.
    for (const char* outcome : {"Taken", "Resolved", "Unmatched", "Failed"})
      alerts.Add({{"outcome", outcome}});
    for (const trigger::SignKind sign :
         {trigger::SignKind::kStepsSlower, trigger::SignKind::kNoStep,
          trigger::SignKind::kMemoryNearLimit, trigger::SignKind::kSlowerThanOthers,
          trigger::SignKind::kStalled, trigger::SignKind::kIterationSlower})
      signs.Add({{"sign", std::string(trigger::NameOf(sign))}, {"outcome", "Taken"}});
  }

  prometheus::Registry& of;
  prometheus::Family<prometheus::Counter>& alerts =
      prometheus::BuildCounter()
          .Name("strobe_triggers_alerts_total")
          .Help(
              "Alerts sent to ProfileTriggers, by result: Taken (a capture was started), Resolved, "
              "Unmatched (no trigger), Failed (refused, to be sent again), or the reason why "
              "nothing was started.")
          .Register(of);
  prometheus::Family<prometheus::Counter>& signs =
      prometheus::BuildCounter()
          .Name("strobe_triggers_signs_total")
          .Help(
              "Signs that workers reported, by sign (StepsSlower, NoStep, MemoryNearLimit, "
              "Stalled, SlowerThanOthers, IterationSlower) and by result: Taken (a capture was "
              "started), Failed (the worker "
              "reports it again), or the reason why nothing was started.")
          .Register(of);
};

TriggerAlertMetrics::TriggerAlertMetrics(prometheus::Registry& registry)
    : families_(std::make_unique<Families>(registry)) {}

TriggerAlertMetrics::~TriggerAlertMetrics() = default;

void TriggerAlertMetrics::AlertDecided(std::string_view outcome) {
  families_->alerts.Add({{"outcome", std::string(outcome)}}).Increment();
}

void TriggerAlertMetrics::SignDecided(std::string_view sign, std::string_view outcome) {
  families_->signs.Add({{"sign", std::string(sign)}, {"outcome", std::string(outcome)}})
      .Increment();
}

}  // namespace strobe::metrics
