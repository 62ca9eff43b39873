// Every gRPC server that listens on a port is started here, so that the same limits hold for all.
// Two servers never share a port, and a client that does not finish its handshake within 10 s is
// disconnected.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace grpc {
class ResourceQuota;
class Server;
class ServerCredentials;
class Service;
}  // namespace grpc

namespace strobe {

struct GrpcServerOptions {
  std::string listen{};  // "host:port"; port 0 picks a free one.
  std::shared_ptr<grpc::ServerCredentials> credentials{};
  int max_request_bytes = 4 << 20;  // Larger requests are refused before they are parsed.
  // A connection without a call for this long is closed; nothing = it stays open.
  std::optional<Nanos> max_idle{};
};

class GrpcServer {
 public:
  // `quota` bounds threads and memory; servers may share one. The services outlive the server.
  // Unavailable, with the address in the message, if the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                           const grpc::ResourceQuota& quota,
                                                           grpc::Service& service,
                                                           grpc::Service* second = nullptr);
  ~GrpcServer();  // Like Stop, with a second for the calls in progress.
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const { return port_; }
  // Accepts no more calls and cancels those that are still in progress at the deadline. Returns
  // when all handlers have returned; a second call does nothing.
  void Stop(std::chrono::system_clock::time_point deadline);

 private:
  GrpcServer(std::unique_ptr<grpc::Server> server, int port);

  const std::unique_ptr<grpc::Server> server_;
  const int port_;
};

}  // namespace strobe
