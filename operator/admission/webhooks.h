// The API server's questions, by path.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/http/http_server.h"
#include "operator/admission/inject.h"
#include "operator/admission/ports.h"
#include "operator/core/gatekeeper.h"

namespace strobe {

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
