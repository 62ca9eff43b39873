// Records what this process' GPUs do, through CUPTI, while a sidecar says so.
//
// All of CUPTI's switches are turned by one thread of the agent, never by the program's. The
// program's threads and CUPTI's own only meet us where CUPTI wants an empty buffer or hands a full
// one back; both are bounded work on memory.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "agent/cupti/activity.h"
#include "agent/cupti/cupti.h"
#include "agent/wire/ring_file.h"

namespace strobe::agent {

class DeviceTracer {
 public:
  // Arms for `wish` and reports in the file's header how that went. What had been switched on
  // before a call failed is switched off again. Where another profiler of this process records the
  // devices, they are left to it.
  // `at_exit` is registered with atexit once CUPTI is open: exit handlers run in the reverse order
  // of their registration, so it runs before CUPTI is destroyed.
  void Arm(wire::RingFile& file, std::uint32_t wish, void (*at_exit)());
  // Fetches what CUPTI has complete, and compares the clocks. Every now and then while armed.
  void Tick();
  // Everything off again; the rest of the records lies in the ring when this returns.
  void Disarm();

  // In a forked child. CUDA and CUPTI do not survive a fork once they were in use, so the child
  // leaves both alone; a child of a program that only had the libraries begins anew.
  void AfterFork();

  // The program ends and does not wait any longer: from now on nothing of CUPTI is called, because
  // its destructors may run. Any thread.
  void LetGo() { let_go_ = true; }

  bool armed() const { return armed_; }
  // True when arming again might find CUDA, which a program may load at any time.
  bool waits_for_cuda() const { return waits_for_cuda_; }

 private:
  struct Failure {
    wire::DeviceStep step;
    CUptiResult result;
  };

  // Whose the devices are, if not ours.
  std::optional<wire::DevicePhase> LeftToOthers(const wire::FileHeader& header) const;
  std::optional<Failure> SwitchOn();
  // In reverse order. False when one of the calls failed.
  bool SwitchOff();
  void Report(wire::DevicePhase phase, Failure failure);
  void WriteDevices();
  void WriteClock();

  static void CUPTIAPI GiveBuffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most);
  static void CUPTIAPI TakeBuffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                  std::size_t size, std::size_t valid);
  static const char* NameOfCall(CUpti_CallbackDomain domain, CUpti_CallbackId id);

  void* library_ = nullptr;
  Cupti cupti_;
  CudaDriver driver_;
  CUpti_SubscriberHandle subscriber_{};
  std::vector<std::function<CUptiResult()>> undo_;
  std::uint32_t wish_ = 0;
  bool armed_ = false, waits_for_cuda_ = false, devices_written_ = false;
  // The kill switch: what was on could not be switched off, so CUPTI's state is not known, and
  // nothing of it is touched again in this process.
  bool dead_ = false;
  CUptiResult flushed_ = CUPTI_SUCCESS;
  bool forked_ = false;  // From a program that had opened CUPTI.
  std::atomic<bool> let_go_{false};

  wire::RingFile* file_ = nullptr;
  std::mutex writing_;  // Guards the next two.
  std::optional<wire::RingWriter> ring_;
  std::optional<Texts> texts_;
};

// The process' only one, because CUPTI's callbacks carry nothing that would tell two apart.
DeviceTracer& TheDeviceTracer();

}  // namespace strobe::agent
