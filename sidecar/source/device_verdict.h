// What it means for a capture how a program fared with recording its devices.
#pragma once
#include <cstdint>
#include <string>

#include "agent/wire/layout.h"
#include "common/base/outcome.h"

namespace strobe {

struct DeviceStatus {
  bool asked = true;      // The capture wants devices of the agent; else they are the framework's.
  bool answered = false;  // The program has heard of this capture's wish.
  bool uses_cuda = false;
  wire::DeviceRefusal refusal = wire::DeviceRefusal::kNone;
  wire::DevicePhase phase = wire::DevicePhase::kIdle;
  wire::DeviceStep step = wire::DeviceStep::kNone;
  std::uint32_t result = 0;        // CUptiResult.
  std::uint64_t lost = 0;          // Records that CUPTI had no buffer for,
  std::uint64_t buffers_lost = 0;  // and buffers with records that somebody else got.
};

// With kOk the message, if any, says why there is nothing to record. kDeviceTraceMissing means that
// the devices were left out on purpose: whether that is a fault depends on what was asked for.
struct DeviceVerdict {
  Outcome outcome = Outcome::kOk;
  std::string message{};
};

// The result's name, such as CUPTI_ERROR_INSUFFICIENT_PRIVILEGES.
std::string CuptiResultName(std::uint32_t result);

DeviceVerdict JudgeDevice(const DeviceStatus& status);

}  // namespace strobe
