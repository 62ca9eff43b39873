#include "sidecar/enroll/operator_channel.h"

#include <grpcpp/grpcpp.h>

#include <random>

#include "common/grpc_tls/credentials.h"

namespace strobe::enroll {

std::shared_ptr<grpc::Channel> OpenOperatorChannel(const Clock& clock,
                                                   const OperatorAddress& address, bool by_name,
                                                   const Identity& identity) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!by_name) {
    arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                        address.name.substr(0, address.name.rfind(':')));
  }
  return grpc::CreateCustomChannel(by_name ? address.name : address.connect_to,
                                   VerifyingChannelCredentials(clock, identity, nullptr),
                                   arguments);
}

Nanos Spread(Nanos wait) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  // Divides first: a wait of years, times a hundred, would overflow.
  return wait / 100 * std::uniform_int_distribution<int>(80, 100)(random);
}

}  // namespace strobe::enroll
