// Interprets the state of a program's device recording for the capture.
#pragma once
#include <cstdint>
#include <string>

#include "agent/wire/layout.h"
#include "common/protocol/device_mode.h"
#include "common/protocol/outcome.h"

namespace strobe::source {

struct DeviceStatus {
  // True if the agent is to record the devices; otherwise the framework does, or nobody.
  bool was_asked = true;
  // True if the program has answered this capture's request.
  bool answered = false;
  bool uses_cuda = false;
  wire::DeviceRefusal refusal = wire::DeviceRefusal::kNone;
  wire::DevicePhase phase = wire::DevicePhase::kIdle;
  wire::DeviceStep step = wire::DeviceStep::kNone;
  std::uint32_t result = 0;        // CUptiResult.
  std::uint64_t lost = 0;          // Records for which CUPTI had no buffer.
  std::uint64_t buffers_lost = 0;  // Buffers with records that CUPTI did not return.
  std::uint64_t mistimed = 0;      // See DeviceActivity::MistimedKernels.
  std::uint64_t cut_names = 0;     // See DeviceActivity::CutNames.
  DeviceMode mode = DeviceMode::kLaunches;
  // The tool that holds CUPTI, or shares it with the agent; see FileHeader::device_holder.
  std::string holder{};
};

// With kOk, the message, if any, tells why there is nothing to record. kDeviceTraceMissing means
// that the devices were left out on purpose; the caller decides whether that is a fault.
struct DeviceVerdict {
  Outcome outcome = Outcome::kOk;
  std::string message{};
};

// The name of a CUptiResult, such as CUPTI_ERROR_INSUFFICIENT_PRIVILEGES.
std::string CuptiResultName(std::uint32_t result);

DeviceVerdict JudgeDevice(const DeviceStatus& status);

// What a reader of the trace must know of how the devices were recorded; empty if nothing.
std::string DescribeRecording(const DeviceStatus& status);
// Whether that is so little that the trace itself must say it, and not only the process's row.
bool IsMuchLeftOut(const DeviceStatus& status);

}  // namespace strobe::source
