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

namespace strobe::enroll {

class AuthorityKeeper {
 public:
  struct Options {
    AuthorityRules rules{};
    std::vector<std::string> server_names{};  // DNS names that sidecars and API server call.
    Nanos poll = std::chrono::seconds(10);
  };

  // All outlive the keeper. `leading` is asked at every look and says whether this replica may make
  // authorities; `became_ready` is called once, from the keeper's thread.
  AuthorityKeeper(const Clock& clock, AuthorityStore& store, Options options,
                  std::function<bool()> leading, std::function<void()> became_ready = nullptr);
  ~AuthorityKeeper();
  AuthorityKeeper(const AuthorityKeeper&) = delete;
  AuthorityKeeper& operator=(const AuthorityKeeper&) = delete;

  void Start();
  // Looks at the store once and brings everything up to date. The thread calls it periodically.
  absl::Status Look();

  // Certificates exist. The functions below, but for SealKeys and NewestAuthority, are only to be
  // called once this is true.
  bool ready() const { return ready_.is_set(); }
  const LiveIdentity& server() const { return *server_; }  // For webhooks and enrollment.
  const LiveIdentity& client() const { return *client_; }  // For calling sidecars.
  // Keys for requesters' seals, derived from the authorities' keys, so that no second secret has to
  // be stored and rotated. The first belongs to the authority that signs and makes new seals; all
  // are good for checking. Empty when there is no authority yet.
  std::vector<std::string> SealKeys() const;
  // When the newest authority is valid; nothing when there is no authority yet.
  std::optional<Validity> NewestAuthority() const;
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

  // Used by the thread only.
  KeyPair signer_{};  // The authority that signed our own certificates.
  Validity own_{};    // When these certificates are valid.
  std::string own_roots_{};

  std::unique_ptr<LiveIdentity> server_{}, client_{};  // Set before ready_, and never again.
  Notification ready_, stop_;
  std::thread thread_;
};

}  // namespace strobe::enroll
