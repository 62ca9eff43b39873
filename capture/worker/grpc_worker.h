// Connections to sidecars over gRPC. Callbacks run on gRPC's threads, so they must be quick.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "capture/ports.h"
#include "capture/worker/deferred_deleter.h"
#include "capture/worker/probe_slots.h"

namespace grpc {
class Channel;
class ChannelCredentials;
}  // namespace grpc

namespace strobe::capture {

class GrpcWorkerConnector final : public WorkerConnector {
 public:
  // `credentials` is called for each connection, because certificates are renewed. With TLS, a
  // sidecar's certificate must name the UID of its target's pod. The clock must outlive this.
  using Credentials = std::function<std::shared_ptr<grpc::ChannelCredentials>()>;
  GrpcWorkerConnector(const Clock& clock, Credentials credentials);
  std::shared_ptr<Worker> Connect(const Target& target) override;

 private:
  const Clock& clock_;
  const Credentials credentials_;
  ProbeSlots slots_;
  DeferredDeleter deleter_;  // Last: its destructor waits for calls, which use the rest.
};

using MakeChannel = std::function<std::shared_ptr<grpc::Channel>()>;

// A worker over an existing channel. The references must outlive it and its calls. `wide_channel`
// makes the one for answers larger than kMaxAnswerBytes; without it, all come over `channel`.
std::shared_ptr<Worker> WorkerOver(const Clock& clock, ProbeSlots& slots, DeferredDeleter& deleter,
                                   const std::shared_ptr<grpc::Channel>& channel,
                                   MakeChannel wide_channel = nullptr);

// No encryption and no authentication, for the flag --insecure-plaintext.
std::shared_ptr<grpc::ChannelCredentials> PlaintextCredentials();

}  // namespace strobe::capture
