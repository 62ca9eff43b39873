// Keeps the devices of programs recorded while no capture runs, for the flight recorder.
//
// A capture finds the devices armed and reads their ring from its oldest record on. It disarms them
// at its end, because only that makes CUPTI return its last records; they are armed again here.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "agent/wire/ring_file.h"
#include "sidecar/source/base/framework_ports.h"

namespace strobe::source {

// What is known of one program's devices. Times are in ns of CLOCK_MONOTONIC.
struct DeviceView {
  bool uses_cuda = false;
  wire::DeviceRefusal refusal = wire::DeviceRefusal::kNone;
  // Its framework has announced itself and records the devices; CUPTI has only one subscriber.
  bool left_to_framework = false;
  std::uint64_t cuda_since_ns = 0;
  std::uint32_t wish = 0;      // FileHeader::device_control.
  std::uint32_t answered = 0;  // The wish that the program answered last, and the answer.
  wire::DevicePhase phase = wire::DevicePhase::kIdle;
  std::uint64_t failed_ns = 0;  // When arming failed last; 0 if it did not.
};

enum class DeviceAction {
  kNone,
  kArm,      // With a new wish.
  kExtend,   // Let the wish last longer.
  kWithdraw  // Recording is not possible, or not wanted.
};
// What to do about a program that no capture records. Pure.
DeviceAction NextDeviceAction(const DeviceView& view, std::uint64_t now_ns);

class IdleDevices {
 public:
  // A program that listens on one of the ports leaves its devices to its own profiler server.
  explicit IdleDevices(const FrameworkPorts& ports) : ports_(ports) {}

  // Does what is due for the devices of one program. Call it about once a second. While a capture
  // holds the program's lease, this only keeps the wish from running out.
  void Attend(const wire::RingFile& file, bool left_to_framework);
  // Forgets the programs whose files are gone. Call it after the turns of all programs.
  void ForgetOthers();
  // Lets the program disarm its devices, unless a capture records them.
  static void Release(const wire::RingFile& file);

 private:
  struct Program {
    std::uint64_t failed_ns = 0;
    int extended = 0;
    bool seen = false;
  };
  const FrameworkPorts ports_;
  std::map<std::string, Program> programs_;  // By path.
};

}  // namespace strobe::source
