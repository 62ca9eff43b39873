// Sidecars over gRPC. Callbacks run on gRPC's threads; they must be short.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "operator/core/ports.h"
#include "operator/workers/undertaker.h"

namespace grpc {
class Channel;
class ChannelCredentials;
}  // namespace grpc

namespace strobe {

class GrpcWorkerConnector final : public WorkerConnector {
 public:
  // `credentials` is asked for each connection: certificates are renewed. With TLS a sidecar must
  // carry the name of its target's pod.
  using Credentials = std::function<std::shared_ptr<grpc::ChannelCredentials>()>;
  GrpcWorkerConnector(const Clock& clock, Credentials credentials);
  std::shared_ptr<Worker> Connect(const Target& target) override;

 private:
  const Clock& clock_;
  const Credentials credentials_;
  Undertaker undertaker_;
};

// A worker over a channel that is there already. Clock and undertaker outlive it and its calls.
std::shared_ptr<Worker> WorkerOver(const Clock& clock, Undertaker& undertaker,
                                   const std::shared_ptr<grpc::Channel>& channel);

// For whoever passes --insecure-plaintext.
std::shared_ptr<grpc::ChannelCredentials> PlaintextCredentials();

}  // namespace strobe
