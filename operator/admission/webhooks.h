// The admission webhooks as HTTP pages, by path.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/http/server.h"
#include "operator/access/gatekeeper.h"
#include "operator/admission/inject.h"

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

// Why the object has too many entries; empty if it has not, or if it has no more of them than
// `before`, which must stay possible to change. `before` is null for an object that is created.
std::string WhyTooManyEntries(const nlohmann::json& object, const nlohmann::json& before);

class KubeNamespaceLimits;

struct WebhookOptions {
  InjectionSettings injection{};
  std::function<std::string()> roots{};  // Returns the current PEM bundle.
  // Returns the current seal keys; the first one is used for new seals. Empty if there is none yet.
  // See admission_seal.h.
  std::function<std::vector<std::string>()> seal_keys{};
  // The number of requests that may wait for the API server at the same time. It must be below the
  // number of server threads; otherwise a slow API server would stop the injection of pods. One
  // client's address may have half of them, unless it has proved who it is.
  int max_judged_at_once = 8;
  // The address of the operator's Service, for pods that cannot resolve its name; empty if it is
  // not known.
  std::function<std::string()> enrollment_address{};
};

// All arguments must outlive the pages. `limits` may be null; pods are then injected without regard
// to their namespace's limits.
std::map<std::string, http::Server::Handler> WebhookPages(const Clock& clock,
                                                          WebhookOptions options,
                                                          access::Gatekeeper& gatekeeper,
                                                          WebhookObserver& observer,
                                                          KubeNamespaceLimits* limits = nullptr);

}  // namespace strobe::admission
