#include "operator/metrics/report_metrics.h"

#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace strobe::metrics {
namespace {

const prometheus::Histogram::BucketBoundaries kStepBuckets = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                              1,     3,     10,   30,   100, 300};
// 0 is a bucket of its own: captures without a straggler.
const prometheus::Histogram::BucketBoundaries kStragglerBuckets = {
    0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
const prometheus::Histogram::BucketBoundaries kRatioBuckets = {
    0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

}  // namespace

struct ReportMetrics::Families {
  explicit Families(prometheus::Registry& of) : registry(of) {}

  prometheus::Registry& registry;
  prometheus::Family<prometheus::Histogram>& job_steps =
      prometheus::BuildHistogram()
          .Name("strobe_capture_step_seconds")
          .Help("Mean duration of a training step in a capture, if its traces have steps.")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& job_stragglers =
      prometheus::BuildHistogram()
          .Name("strobe_capture_straggler_seconds")
          .Help(
              "How much longer a training step is because of workers that hold up the others; 0 if "
              "it is known that there are none.")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& exposed_communication =
      prometheus::BuildHistogram()
          .Name("strobe_capture_exposed_communication_ratio")
          .Help(
              "Share of the recorded time in which devices communicated and computed nothing, "
              "averaged over a capture's workers.")
          .Register(registry);
};

ReportMetrics::ReportMetrics(prometheus::Registry& registry)
    : families_(std::make_unique<Families>(registry)) {}

ReportMetrics::~ReportMetrics() = default;

void ReportMetrics::Observe(const std::string& ns, const capture::JobReport& report) {
  if (report.step_seconds)
    families_->job_steps.Add({{"namespace", ns}}, kStepBuckets).Observe(*report.step_seconds);
  if (report.straggler_seconds)
    families_->job_stragglers.Add({{"namespace", ns}}, kStragglerBuckets)
        .Observe(*report.straggler_seconds);
  if (report.exposed_communication)
    families_->exposed_communication.Add({{"namespace", ns}}, kRatioBuckets)
        .Observe(*report.exposed_communication);
}

}  // namespace strobe::metrics
