#include "operator/metrics/trigger_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <string>

namespace strobe {

struct TriggerAlertMetrics::Families {
  explicit Families(prometheus::Registry& registry) : of(registry) {
    // So that the first alert is an increase.
    for (const char* outcome : {"Taken", "Resolved", "Unmatched", "Failed"})
      alerts.Add({{"outcome", outcome}});
  }

  prometheus::Registry& of;
  prometheus::Family<prometheus::Counter>& alerts =
      prometheus::BuildCounter()
          .Name("strobe_triggers_alerts_total")
          .Help(
              "Alerts that ProfileTriggers were sent, by what came of them: Taken (a capture was "
              "started), Resolved, Unmatched (no trigger), Failed (sent back, to be sent again), "
              "or "
              "the reason why nothing was started.")
          .Register(of);
};

TriggerAlertMetrics::TriggerAlertMetrics(prometheus::Registry& registry)
    : families_(std::make_unique<Families>(registry)) {}

TriggerAlertMetrics::~TriggerAlertMetrics() = default;

void TriggerAlertMetrics::AlertDecided(std::string_view outcome) {
  families_->alerts.Add({{"outcome", std::string(outcome)}}).Increment();
}

}  // namespace strobe
