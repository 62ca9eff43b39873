// What the webhooks ask of the rest of the operator.
#pragma once
#include <string>

#include "common/base/clock.h"

namespace strobe {

// What happened, for metrics. Called from the server's threads.
class WebhookObserver {
 public:
  virtual ~WebhookObserver() = default;
  // `code` is the HTTP status, or that of the refusal.
  // Answered follows.
  virtual void Asked(const std::string& webhook) = 0;
  virtual void Answered(const std::string& webhook, int code, Nanos took) = 0;
  // `result` is injected, unchanged, skipped or failed.
  virtual void Injected(const std::string& space, const std::string& result) = 0;
  // `damage` is lost or mutilated.
  virtual void InjectionDamaged(const std::string& space, const std::string& damage) = 0;
};

}  // namespace strobe
