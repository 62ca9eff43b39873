// Receives alerts from Alertmanager: POST /alerts over TLS, by clients with a bearer token or a
// certificate. Answers 200 only after the sink has decided on the alerts, and 5xx, which
// Alertmanager repeats, when it has not. Safe for concurrent use, but ReloadFiles is for one
// thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fair/token_bucket.h"
#include "common/http/server.h"
#include "common/http/source_limiter.h"
#include "common/tls/identity_files.h"
#include "operator/trigger/alert.h"
#include "operator/trigger/bearer_tokens.h"
#include "operator/trigger/ports.h"

namespace strobe::trigger {

// The longest post that is read.
inline constexpr std::size_t kMaxAlertPostBytes = std::size_t{1} << 20;

struct AlertReceiverOptions {
  std::string listen{};
  // What is named here is demanded of every client: one of the tokens, a certificate of the files'
  // client authority, or both. At least one must be named.
  std::vector<std::string> token_files{};
  // Without a certificate, `identity` is the server's.
  IdentityFiles::Paths files{};
  std::vector<std::string> client_names{};  // Common names of client certificates; empty = any.
  const LiveIdentity* identity = nullptr;
};

class AlertReceiver {
 public:
  // Fails if clients need not authenticate, a file cannot be used, or the address cannot be bound.
  // The references and options.identity outlive the receiver.
  static absl::StatusOr<std::unique_ptr<AlertReceiver>> Start(const Clock& clock,
                                                              AlertReceiverOptions options,
                                                              AlertSink& sink,
                                                              AlertReceiverObserver& observer);
  AlertReceiver(const AlertReceiver&) = delete;
  AlertReceiver& operator=(const AlertReceiver&) = delete;

  int port() const { return server_->port(); }
  // Takes over what has changed in the files. Where a file cannot be used, what was read before
  // stays in use, but a token is refused once its file is gone.
  void ReloadFiles();
  // From now on each answer ends its connection, so that clients turn to another replica.
  void Drain() { server_->Drain(); }

 private:
  AlertReceiver(const Clock& clock, AlertReceiverOptions options, AlertSink& sink,
                AlertReceiverObserver& observer);
  absl::Status Listen();
  http::ServerOptions ServerOptions();

  std::optional<http::Page> RefuseHead(const http::Request& head);
  http::Page Take(const http::Request& post);
  http::Page TakeBody(const http::Request& post);
  http::Page Decide(const std::vector<Alert>& alerts);
  void CountRefusal(http::HttpRefusal refusal);
  // Counts a refused post; logs it too, unless many were logged just before.
  http::Page Refuse(const http::Request& post, int code, std::string_view reason, std::string why);
  bool MayLog();

  const Clock& clock_;
  const AlertReceiverOptions options_;
  AlertSink& sink_;
  AlertReceiverObserver& observer_;
  std::unique_ptr<BearerTokens> tokens_;  // Null if no token is demanded.
  std::unique_ptr<IdentityFiles> files_;
  http::SourceLimiter limiter_;
  Mutex mutex_;
  fair::TokenBucket log_lines_ ABSL_GUARDED_BY(mutex_);
  std::string reload_error_;  // The last error that was logged. Used by one thread only.
  std::unique_ptr<http::Server> server_;  // Last: its threads use the rest.
};

}  // namespace strobe::trigger
