// The API server's questions, by path.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collector/base/clock.h"
#include "collector/http/http_server.h"
#include "operator/admission/inject.h"
#include "operator/core/gatekeeper.h"

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

struct WebhookOptions {
  InjectionSettings injection{};
  std::function<std::string()> roots{};  // PEM, of the moment.
  // The first seals who asked for a request; empty: there is none yet. See admission_seal.h.
  std::function<std::vector<std::string>()> seal_keys{};
  // Requests whose requester is being looked up at one time. They wait for the API server; fewer
  // than the server has threads, or a slow API server would end the injection of pods.
  int max_judged_at_once = 4;
};

// All outlive the pages.
std::map<std::string, HttpServer::Handler> WebhookPages(const Clock& clock, WebhookOptions options,
                                                        Gatekeeper& gatekeeper,
                                                        WebhookObserver& observer);

}  // namespace strobe
