#include "operator/metrics/automatic_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <string>

#include "operator/trigger/sign.h"

namespace strobe::metrics {

using ReceiverFamily = prometheus::Family<prometheus::Counter>;

struct ReceiverMetrics::Families {
  explicit Families(prometheus::Registry& registry) : of(registry) {}

  prometheus::Registry& of;
  ReceiverFamily& requests =
      prometheus::BuildCounter()
          .Name("strobe_alert_receiver_requests_total")
          .Help("Posts to the receiver of alerts, by HTTP status of the answer.")
          .Register(of);
  ReceiverFamily& bytes =
      prometheus::BuildCounter()
          .Name("strobe_alert_receiver_bytes_total")
          .Help("Bytes of the bodies that the receiver of alerts has read completely.")
          .Register(of);
  ReceiverFamily& alerts = prometheus::BuildCounter()
                               .Name("strobe_alert_receiver_alerts_total")
                               .Help("Alerts that were processed, by status (firing, resolved).")
                               .Register(of);
  ReceiverFamily& refused =
      prometheus::BuildCounter()
          .Name("strobe_alert_receiver_refused_total")
          .Help(
              "Connections and posts that the receiver of alerts refused, by reason (handshake, "
              "token, too_long, slow, busy, crowded, rate, malformed).")
          .Register(of);
  ReceiverFamily& dropped =
      prometheus::BuildCounter()
          .Name("strobe_alert_receiver_dropped_total")
          .Help(
              "Items left out of accepted posts, by reason: alerts (truncated by Alertmanager, "
              "too_many, invalid) and texts of alerts (annotation).")
          .Register(of);
};

ReceiverMetrics::ReceiverMetrics(prometheus::Registry& registry)
    : families_(std::make_unique<Families>(registry)) {
  // All series from the beginning, so that the first event is an increase.
  for (const char* code : {"200", "400", "401", "404", "405", "413", "415", "500", "503"})
    families_->requests.Add({{"code", code}});
  families_->bytes.Add({});
  for (const char* status : {"firing", "resolved"}) families_->alerts.Add({{"status", status}});
  for (const std::string_view reason : trigger::kAlertRefusals)
    families_->refused.Add({{"reason", std::string(reason)}});
  for (const std::string_view reason : trigger::kAlertDrops)
    families_->dropped.Add({{"reason", std::string(reason)}});
}

ReceiverMetrics::~ReceiverMetrics() = default;

void ReceiverMetrics::Answered(int code) {
  families_->requests.Add({{"code", std::to_string(code)}}).Increment();
}

void ReceiverMetrics::Read(std::size_t body_bytes) {
  families_->bytes.Add({}).Increment(static_cast<double>(body_bytes));
}

void ReceiverMetrics::Taken(std::size_t firing, std::size_t resolved) {
  families_->alerts.Add({{"status", "firing"}}).Increment(static_cast<double>(firing));
  families_->alerts.Add({{"status", "resolved"}}).Increment(static_cast<double>(resolved));
}

void ReceiverMetrics::Refused(std::string_view reason) {
  families_->refused.Add({{"reason", std::string(reason)}}).Increment();
}

void ReceiverMetrics::Dropped(std::string_view reason, std::uint64_t count) {
  families_->dropped.Add({{"reason", std::string(reason)}}).Increment(static_cast<double>(count));
}

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

struct ScheduleRunMetrics::Families {
  explicit Families(prometheus::Registry& registry) : of(registry) {}

  prometheus::Registry& of;
  prometheus::Family<prometheus::Counter>& runs =
      prometheus::BuildCounter()
          .Name("strobe_schedule_runs_total")
          .Help(
              "Runs of ProfileSchedules, by result (started, succeeded, failed, cancelled, "
              "skipped).")
          .Register(of);
};

ScheduleRunMetrics::ScheduleRunMetrics(prometheus::Registry& registry)
    : families_(std::make_unique<Families>(registry)) {}

ScheduleRunMetrics::~ScheduleRunMetrics() = default;

void ScheduleRunMetrics::RunsCounted(const std::string& ns, std::string_view result,
                                     std::int64_t count) {
  const auto counter = [&](std::string_view known) -> prometheus::Counter& {
    return families_->runs.Add({{"namespace", ns}, {"result", std::string(known)}});
  };
  // All counters of a namespace together, so that the first run that is skipped is an increase.
  for (const std::string_view known : {"started", "succeeded", "failed", "cancelled", "skipped"})
    counter(known);
  counter(result).Increment(static_cast<double>(count));
}

}  // namespace strobe::metrics
