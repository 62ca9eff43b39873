// Records the activity of this process's GPUs through CUPTI while a sidecar asks for it.
//
// One thread of the agent, never a thread of the program, enables and disables CUPTI. The program's
// threads and CUPTI's own threads run agent code only when CUPTI needs an empty buffer or returns a
// full one; both take bounded time and do not block on I/O. Only if a capture asks for it, one of
// the program's calls detaches CUPTI; see Subscription::Detach.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "agent/cupti/activity.h"
#include "agent/cupti/cupti.h"
#include "agent/cupti/kinds.h"
#include "agent/cupti/subscription.h"
#include "agent/wire/ring_file.h"

namespace strobe::agent {

enum class Manners {
  kPolite,  // Leaves the devices to Kineto, and shares CUPTI where it can.
  kForced,  // Records devices also in a process with Kineto.
  kAlone    // As kPolite, but never shares CUPTI.
};

class DeviceTracer {
 public:
  // Starts recording for the request with number `wish` and reports the result in the file's
  // header. If a call fails, everything that was enabled before it is disabled again. If another
  // profiler of this process records the devices, they are left to it.
  //
  // `at_exit` is registered with atexit once CUPTI is open. Exit handlers run in the reverse order
  // of their registration, so it runs before CUPTI is destroyed.
  void Arm(wire::RingFile& file, std::uint32_t wish, void (*at_exit)());
  // Fetches CUPTI's complete records and compares its clock with the ring's. Call it periodically
  // while armed. Leaves the devices to another profiler that has appeared since.
  void Tick();
  // Stops recording. When it returns, the remaining records are in the ring.
  void Disarm();

  // How to behave towards other profilers of the process. Call it before the first Arm.
  void Behave(Manners manners) { manners_ = manners; }
  // PyTorch's profiler is about to record: leaves the devices to it from the next Tick on, for
  // good. False if it does not, because it is forced. Safe to call from any thread.
  bool LeaveToKineto() {
    left_to_kineto_ = true;
    return manners_ != Manners::kForced;
  }

  // For a forked child. CUDA and CUPTI do not survive a fork once they were used, so the child then
  // leaves both alone. If the parent had not used them, the child can record.
  void AfterFork();

  // Stops all calls to CUPTI from now on, because the program is ending and CUPTI's destructors may
  // run. Safe to call from any thread.
  void LetGo() { let_go_ = true; }

  bool armed() const { return armed_; }
  // True if a later Arm may succeed, because a program may load CUDA at any time.
  bool waits_for_cuda() const { return waits_for_cuda_; }

 private:
  // The other profiler that records the devices, if there is one.
  std::optional<wire::DevicePhase> LeftToOthers();
  // Like LeftToOthers, while the devices are recorded: looks only if the sidecar asked to look
  // again.
  std::optional<wire::DevicePhase> LeftMeanwhile();
  std::optional<CuptiFailure> SwitchOn();
  // Undoes SwitchOn in reverse order. False if one of the calls failed.
  bool SwitchOff();
  void Report(wire::DevicePhase phase, CuptiFailure failure);
  void WriteDevices();
  void WriteClock();

  static void CUPTIAPI GiveBuffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most);
  static void CUPTIAPI TakeBuffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                  std::size_t size, std::size_t valid);
  static const char* NameOfCall(CUpti_CallbackDomain domain, CUpti_CallbackId id);

  void* library_ = nullptr;
  Cupti cupti_;
  CudaDriver driver_;
  Subscription subscription_;
  CuptiUndo undo_;
  std::uint32_t wish_ = 0, ports_told_ = 0;
  std::uint32_t mode_ = 0;  // FileHeader::device_mode of the request.
  std::atomic<bool> left_to_kineto_{false};
  Manners manners_ = Manners::kPolite;
  bool armed_ = false, waits_for_cuda_ = false;
  // The ring's position when the devices were last described; none if they were not.
  std::optional<std::uint64_t> devices_written_at_;
  // Set when CUPTI could not be disabled. Its state is then unknown, and it is not called again in
  // this process.
  bool dead_ = false;
  CUptiResult flushed_ = CUPTI_SUCCESS;
  bool forked_ = false;  // This process was forked from one that had opened CUPTI.
  std::atomic<bool> let_go_{false};

  wire::RingFile* file_ = nullptr;
  std::mutex writing_;  // Guards ring_ and texts_.
  std::optional<wire::RingWriter> ring_;
  std::optional<Texts> texts_;
};

// The only instance in the process, because CUPTI's callbacks carry no pointer that could
// distinguish two.
DeviceTracer& TheDeviceTracer();

}  // namespace strobe::agent
