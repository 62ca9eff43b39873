// What a program has answered to a request to record its devices, and the numbers of requests.
#pragma once
#include <cstdint>

#include "agent/wire/layout.h"

namespace strobe::source {

struct DeviceAnswer {
  std::uint32_t wish = 0;  // The number of the request.
  wire::DevicePhase phase = wire::DevicePhase::kIdle;
};

// The last answer.
inline DeviceAnswer AnswerOf(const wire::FileHeader& header) {
  const std::uint64_t state = header.device_state.load(std::memory_order_acquire);
  return {static_cast<std::uint32_t>(state >> 32),
          static_cast<wire::DevicePhase>(static_cast<std::uint32_t>(state))};
}

// A number for a new request: neither 0, nor the one that was answered last, nor the one that is
// asked for and may be answered now.
constexpr std::uint32_t NewWish(std::uint32_t answered, std::uint32_t asked) {
  std::uint32_t wish = answered;
  do ++wish;
  while (wish == 0 || wish == asked);
  return wish;
}

}  // namespace strobe::source
