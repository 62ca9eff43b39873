// Sidecars over gRPC. Callbacks run on gRPC's threads; they must be short.
#pragma once
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
  GrpcWorkerConnector(const Clock& clock, std::shared_ptr<grpc::ChannelCredentials> credentials);
  std::shared_ptr<Worker> Connect(const Target& target) override;

 private:
  const Clock& clock_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  Undertaker undertaker_;
};

// A worker over a channel that is there already. Clock and undertaker outlive it and its calls.
std::shared_ptr<Worker> WorkerOver(const Clock& clock, Undertaker& undertaker,
                                   const std::shared_ptr<grpc::Channel>& channel);

// Until sidecars have certificates: for whoever passes --insecure-plaintext.
std::shared_ptr<grpc::ChannelCredentials> PlaintextCredentials();

}  // namespace strobe
