#include "common/grpc_tls/grpc_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <utility>

#include "common/base/strings.h"
#include "common/grpc_tls/grpc_log.h"

namespace strobe {
namespace {

constexpr Nanos kMaxHandshake = std::chrono::seconds(10);
// With gRPC's default of 5 minutes, the third ping of a client that pings more often ends its
// connection. The operator pings each 15 s and sends nothing else while a capture waits or uploads.
constexpr Nanos kMinPingInterval = std::chrono::seconds(1);
constexpr Nanos kStopPatience = std::chrono::seconds(1);

int ToMillis(Nanos duration) { return static_cast<int>(duration / std::chrono::milliseconds(1)); }

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                              const grpc::ResourceQuota& quota,
                                                              grpc::Service& service,
                                                              grpc::Service* second) {
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(options.max_request_bytes);
  // By default gRPC shares a port with a server that listens on it already, and each of the two
  // gets some of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, ToMillis(kMaxHandshake));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             ToMillis(kMinPingInterval));
  if (options.max_idle)
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, ToMillis(*options.max_idle));
  int port = 0;
  builder.AddListeningPort(options.listen, options.credentials, &port);
  builder.RegisterService(&service);
  if (second != nullptr) builder.RegisterService(second);
  const GrpcErrors errors;  // Why it cannot listen, which gRPC tells to its log only.
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    const std::string why = errors.SystemError();
    return absl::UnavailableError(
        StrCat("cannot listen on ", options.listen, ": ",
               why.empty() ? "the port is taken, or the address is not this machine's" : why));
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(server), port));
}

GrpcServer::GrpcServer(std::unique_ptr<grpc::Server> server, int port)
    : server_(std::move(server)), port_(port) {}

// gRPC's own destructor waits without a deadline.
GrpcServer::~GrpcServer() { Stop(DeadlineIn(kStopPatience)); }

void GrpcServer::Stop(std::chrono::system_clock::time_point deadline) {
  server_->Shutdown(deadline);
}

}  // namespace strobe
