// Asks NCCL's RAS subsystem how far each rank of each communicator has come. It listens on the
// loopback of each pod whose processes use NCCL 2.24 or newer, without authentication.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe::stall {

inline constexpr std::uint16_t kRasPort = 28028;

struct RasOptions {
  std::uint16_t port = kRasPort;
  // All processes of the pod listen on the port, and the kernel chooses one. If that is stopped,
  // nobody answers the greeting, and another connection may get another process.
  int tries = 8;
  Nanos greeting = std::chrono::seconds(1);
  // How long RAS waits for processes of other machines; it may need as long again, and 3 s.
  int seconds = 2;
  Nanos answer = std::chrono::seconds(8);
  std::size_t max_bytes = std::size_t{16} << 20;
};

// The answer to VERBOSE STATUS, in JSON where NCCL has it (2.28.7 and newer), else as text.
// NotFound if nobody listens, DeadlineExceeded if nobody answers, DataLoss if the answer is cut.
// Ends early, as Cancelled, once `is_wanted` returns false.
absl::StatusOr<std::string> AskRas(const RasOptions& options,
                                   const std::function<bool()>& is_wanted);

}  // namespace strobe::stall
