// How a sidecar reaches its operator.
#pragma once
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/tls/live_identity.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace strobe::enroll {

struct OperatorAddress {
  std::string name{};  // host:port; the operator's certificate must carry the host.
  // host:port to connect to, where the host of `name` may not be resolved; empty = `name`.
  std::string connect_to{};
};

// This process's pod, as the operator knows it. Empty if an older operator does not tell.
struct OwnPod {
  std::string ns{}, name{}, uid{};
};

// Opens a new connection each time, so that the sidecars spread over the operator's replicas. An
// identity without a key shows no certificate.
std::shared_ptr<grpc::Channel> OpenOperatorChannel(const Clock& clock,
                                                   const OperatorAddress& address, bool by_name,
                                                   const Identity& identity);

// Shortens a wait by up to a fifth at random, because thousands of sidecars that started together
// must not call the operator at one moment.
Nanos Spread(Nanos wait);

}  // namespace strobe::enroll
