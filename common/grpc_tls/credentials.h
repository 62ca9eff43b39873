// gRPC credentials from identities whose certificates are renewed while the process runs.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/tls/live_identity.h"
#include "common/tls/peer.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace strobe {

// The names that certificates carry; see SECURITY.md.
inline constexpr char kOperatorName[] = "operator.strobe.dev";
std::string PodName(std::string_view pod_uid);  // "<uid>.pod.strobe.dev"

// Called from gRPC's threads with the reason why a peer was refused.
using PeerObserver = std::function<void(PeerVerdict)>;

// Accepts only clients whose certificate carries the name `client`. Clock and identity outlive the
// server.
std::shared_ptr<grpc::ServerCredentials> MutualServerCredentials(const Clock& clock,
                                                                 const LiveIdentity& identity,
                                                                 std::string client,
                                                                 PeerObserver refused);
// Accepts every client, because clients that enroll have no certificate yet. A certificate that a
// client shows is not judged here; services find it in the call's context.
std::shared_ptr<grpc::ServerCredentials> AskingServerCredentials(const LiveIdentity& identity);

// The server's certificate must carry the name that the channel is for: the channel argument
// GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, or else the host of its address. An identity without a key
// shows no certificate.
std::shared_ptr<grpc::ChannelCredentials> VerifyingChannelCredentials(const Clock& clock,
                                                                      const Identity& identity,
                                                                      PeerObserver refused);

// Credentials for an identity that is renewed: each call of Current returns them with the
// newest certificate. Safe for concurrent use; identity and clock outlive it.
class LiveChannelCredentials {
 public:
  LiveChannelCredentials(const Clock& clock, const LiveIdentity& identity, PeerObserver refused)
      : clock_(clock), identity_(identity), refused_(std::move(refused)) {}
  std::shared_ptr<grpc::ChannelCredentials> Current();

 private:
  const Clock& clock_;
  const LiveIdentity& identity_;
  const PeerObserver refused_;
  Mutex mutex_;
  std::shared_ptr<const Identity> made_of_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::ChannelCredentials> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe
