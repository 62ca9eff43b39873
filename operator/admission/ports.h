// The interfaces that the webhooks need.
#pragma once
#include <string>

#include "common/base/clock.h"

namespace strobe::admission {

// Receives events for metrics. Called from the server's threads.
class WebhookObserver {
 public:
  virtual ~WebhookObserver() = default;
  // A review has arrived. A call of Answered follows.
  virtual void CountCall(const std::string& webhook) = 0;
  // `code` is the HTTP status of the answer, or the code of the refusal in it.
  virtual void Answered(const std::string& webhook, int code, Nanos took) = 0;
  // `result` is "injected", "unchanged", "skipped" or "failed".
  virtual void Injected(const std::string& ns, const std::string& result) = 0;
  // `damage` is "lost" or "modified".
  virtual void InjectionDamaged(const std::string& ns, const std::string& damage) = 0;
};

}  // namespace strobe::admission
