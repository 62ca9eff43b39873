// Keeps this replica's certificates in step with the stored authorities; the leader's keeper also
// makes, replaces and announces authorities. Runs on its own thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/tls/live_identity.h"
#include "operator/enroll/authority.h"
#include "operator/enroll/ports.h"

namespace strobe {

class AuthorityKeeper {
 public:
  struct Options {
    AuthorityRules rules{};
    std::vector<std::string> server_names{};  // DNS names under which others call us.
    Nanos poll = std::chrono::seconds(10);
  };

  // All outlive the keeper. `leading` is asked at every look; `became_ready` is called once, from
  // the thread that looks.
  AuthorityKeeper(const Clock& clock, AuthorityStore& store, Options options,
                  std::function<bool()> leading, std::function<void()> became_ready = nullptr);
  ~AuthorityKeeper();
  AuthorityKeeper(const AuthorityKeeper&) = delete;
  AuthorityKeeper& operator=(const AuthorityKeeper&) = delete;

  void Start();
  // One look at the store; what the thread does again and again.
  absl::Status Look();

  // Certificates are there; from then on the others may be called.
  bool ready() const { return ready_.is_set(); }
  const LiveIdentity& server() const { return *server_; }  // For webhooks and enrollment.
  const LiveIdentity& client() const { return *client_; }  // For calling sidecars.
  // Keys to seal with, made of the authorities' own: whoever has the authorities has them, and they
  // live as long. The first is that of the authority that signs; empty: there is none yet.
  std::vector<std::string> SealKeys() const;
  // Certifies a sidecar's key for its pod.
  absl::StatusOr<std::string> CertifyPod(const std::string& signing_request,
                                         const PodIdentity& pod) const;

 private:
  void Run();
  absl::StatusOr<Authorities> UpToDate(WallTime now);
  absl::Status RenewOwn(WallTime now);

  const Clock& clock_;
  AuthorityStore& store_;
  const Options options_;
  const std::function<bool()> leading_;
  const std::function<void()> became_ready_;

  mutable Mutex mutex_;
  Authorities authorities_ ABSL_GUARDED_BY(mutex_);

  // Of the thread.
  KeyPair signer_{};  // Who signed our own certificates.
  WallTime renewal_{};
  std::string own_roots_{};

  std::optional<LiveIdentity> server_, client_;  // Set once, before ready_.
  Notification ready_, stop_;
  std::thread thread_;
};

}  // namespace strobe
