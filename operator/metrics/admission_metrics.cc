#include "operator/metrics/admission_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "operator/metrics/buckets.h"

namespace strobe::metrics {

struct AdmissionMetrics::Families {
  explicit Families(prometheus::Registry& of) : registry(of) {}

  prometheus::Registry& registry;
  prometheus::Family<prometheus::Counter>& webhooks =
      prometheus::BuildCounter()
          .Name("controller_runtime_webhook_requests_total")
          .Help("Reviews answered, by webhook and HTTP status.")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& webhooks_in_flight =
      prometheus::BuildGauge()
          .Name("controller_runtime_webhook_requests_in_flight")
          .Help("Reviews that are being processed, by webhook.")
          .Register(registry);
  prometheus::Family<prometheus::Histogram>& webhook_time =
      prometheus::BuildHistogram()
          .Name("controller_runtime_webhook_latency_seconds")
          .Help("Time to answer a review.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& injections =
      prometheus::BuildCounter()
          .Name("strobe_injections_total")
          .Help(
              "Pods seen by the injecting webhook, by result (injected, "
              "unchanged, skipped, failed).")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& damaged =
      prometheus::BuildCounter()
          .Name("strobe_injections_damaged_total")
          .Help(
              "Injections that another webhook had removed (lost) or changed "
              "(modified) when the pod was stored.")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& uninjected =
      prometheus::BuildGauge()
          .Name("strobe_uninjected_pods")
          .Help(
              "Pods that should be injected, by the label strobe.dev/inject of their own or of "
              "their namespace, and have no working sidecar.")
          .Register(registry);
};

AdmissionMetrics::AdmissionMetrics(prometheus::Registry& registry)
    : families_(std::make_unique<Families>(registry)) {}

AdmissionMetrics::~AdmissionMetrics() = default;

void AdmissionMetrics::CountCall(const std::string& webhook) {
  families_->webhooks_in_flight.Add({{"webhook", webhook}}).Increment();
}

void AdmissionMetrics::Answered(const std::string& webhook, int code, Nanos took) {
  families_->webhooks_in_flight.Add({{"webhook", webhook}}).Decrement();
  families_->webhooks.Add({{"webhook", webhook}, {"code", StrCat(code)}}).Increment();
  families_->webhook_time.Add({{"webhook", webhook}}, kReconcileBuckets).Observe(Seconds(took));
}

void AdmissionMetrics::Injected(const std::string& ns, const std::string& result) {
  families_->injections.Add({{"namespace", NamespaceLabel(ns)}, {"result", result}}).Increment();
}

std::string AdmissionMetrics::NamespaceLabel(const std::string& ns) {
  constexpr std::size_t kMaxNamespaces = 5000;
  MutexLock lock(&mutex_);
  if (namespaces_.contains(ns)) return ns;
  if (namespaces_.size() >= kMaxNamespaces || !IsSafeName(ns, 63)) return "other";
  namespaces_.insert(ns);
  return ns;
}

void AdmissionMetrics::InjectionDamaged(const std::string& ns, const std::string& damage) {
  families_->damaged.Add({{"namespace", NamespaceLabel(ns)}, {"damage", damage}}).Increment();
}

void AdmissionMetrics::UninjectedPods(const std::map<std::string, int>& by_namespace) {
  for (const std::string& ns : known_uninjected_) {
    if (by_namespace.count(ns) == 0) families_->uninjected.Add({{"namespace", ns}}).Set(0);
  }
  for (const auto& [ns, count] : by_namespace) {
    families_->uninjected.Add({{"namespace", ns}}).Set(count);
    known_uninjected_.insert(ns);
  }
}

}  // namespace strobe::metrics
