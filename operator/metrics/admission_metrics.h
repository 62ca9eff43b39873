// The metrics of the webhooks and of the injection. Safe for concurrent use.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "operator/admission/webhooks.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace strobe::metrics {

class AdmissionMetrics final : public admission::WebhookObserver {
 public:
  explicit AdmissionMetrics(prometheus::Registry& registry);  // Must outlive it.
  ~AdmissionMetrics() override;

  void CountCall(const std::string& webhook) override;
  void Answered(const std::string& webhook, int code, Nanos took) override;
  void Injected(const std::string& ns, const std::string& result) override;
  void InjectionDamaged(const std::string& ns, const std::string& damage) override;
  // Sets the number of pods that should be injected but cannot be profiled. For one thread.
  void UninjectedPods(const std::map<std::string, int>& by_namespace);

 private:
  struct Families;
  // The label for a namespace that a review names. Untrusted clients can send reviews, so the
  // number of namespaces is limited.
  std::string NamespaceLabel(const std::string& ns);

  const std::unique_ptr<Families> families_;
  std::set<std::string> known_uninjected_;
  Mutex mutex_;
  std::set<std::string> namespaces_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::metrics
