#include "operator/metrics/schedule_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/registry.h>

namespace strobe::metrics {

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
