#include "agent/cupti/device_tracer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "agent/cupti/buffers.h"
#include "agent/cupti/other_profilers.h"
#include "agent/wire/device_records.h"
#include "agent/wire/ticks.h"

namespace strobe::agent {
namespace {

using wire::DevicePhase;
using wire::DeviceStep;
using wire::RecordType;

// After everything is switched off, CUPTI is flushed at most so many times more, at this interval,
// until it has returned all buffers. A call of the program that was running then writes its record
// when it ends; the launch of a large graph takes milliseconds, and longer while the device's queue
// is full.
constexpr int kMaxFlushes = 250;
constexpr useconds_t kFlushAgainAfterUs = 1000;

}  // namespace

DeviceTracer& TheDeviceTracer() {
  static DeviceTracer& tracer =
      *new DeviceTracer;  // Never destroyed: CUPTI's callbacks may come until the process ends.
  return tracer;
}

void DeviceTracer::AfterFork() {
  const bool in_use = library_ != nullptr;
  ForgetBuffers();
  const Manners manners = manners_;
  new (this) DeviceTracer;  // Threads that the child does not have may have held the locks.
  forked_ = in_use;
  manners_ = manners;
}

void DeviceTracer::Report(DevicePhase phase, CuptiFailure failure) {
  wire::FileHeader& header = *file_->header();
  std::memcpy(header.device_holder, subscription_.holder(), sizeof header.device_holder);
  header.device_step.store(static_cast<std::uint32_t>(failure.step), std::memory_order_relaxed);
  header.device_result.store(static_cast<std::uint32_t>(failure.result), std::memory_order_relaxed);
  header.device_state.store(wire::DeviceState(wish_, phase), std::memory_order_release);
}

void DeviceTracer::Arm(wire::RingFile& file, std::uint32_t wish, void (*at_exit)()) {
  file_ = &file;
  wish_ = wish;
  mode_ = file.header()->device_mode.load(std::memory_order_relaxed);
  constexpr CuptiFailure kNoFailure{DeviceStep::kNone, CUPTI_SUCCESS};
  if (forked_) return Report(DevicePhase::kNoCuda, kNoFailure);
  if (dead_) return Report(DevicePhase::kFailed, {DeviceStep::kSwitchOff, CUPTI_ERROR_UNKNOWN});
  waits_for_cuda_ = !FindCudaDriver(driver_);
  if (waits_for_cuda_) return Report(DevicePhase::kNoCuda, kNoFailure);
  if (const std::optional<DevicePhase> others = LeftToOthers()) return Report(*others, kNoFailure);
  int version = 0;
  driver_.driver_version(&version);
  if (library_ == nullptr) {
    library_ = OpenCupti(version, cupti_);
    if (library_ == nullptr) return Report(DevicePhase::kNoCupti, kNoFailure);
    std::atexit(at_exit);
  }
  if (!file.ReserveDevice())
    return Report(DevicePhase::kFailed, {DeviceStep::kReserve, CUPTI_ERROR_OUT_OF_MEMORY});
  {
    std::lock_guard<std::mutex> lock(writing_);
    ring_.emplace(file.device_ring(), file.device_data(), file.device_words());
    if (texts_)
      texts_->Forget();
    else
      texts_.emplace(file.device_words());
    file.header()->device_begin.store(ring_->position(), std::memory_order_relaxed);
  }
  devices_written_at_.reset();
  WriteDevices();
  const std::optional<CuptiFailure> failure = SwitchOn();
  if (failure) {
    SwitchOff();
    return Report(DevicePhase::kFailed, *failure);
  }
  armed_ = true;
  WriteClock();
  Report(DevicePhase::kArmed, kNoFailure);
}

std::optional<DevicePhase> DeviceTracer::LeftMeanwhile() {
  if (left_to_kineto_ && manners_ != Manners::kForced) return DevicePhase::kKineto;
  if (file_->header()->framework_ports_reported.load(std::memory_order_acquire) == ports_told_)
    return std::nullopt;
  return LeftToOthers();
}

std::optional<DevicePhase> DeviceTracer::LeftToOthers() {
  const wire::FileHeader& header = *file_->header();
  ports_told_ = header.framework_ports_reported.load(std::memory_order_acquire);
  std::vector<std::uint16_t> ports;
  for (const auto& word : header.framework_ports) {
    for (std::uint64_t four = word.load(std::memory_order_relaxed); four != 0; four >>= 16) {
      if ((four & 0xffff) != 0) ports.push_back(static_cast<std::uint16_t>(four));
    }
  }
  if (ListensOn(ports)) return DevicePhase::kFramework;
  const bool beside =
      manners_ == Manners::kForced || ((mode_ & wire::kBesideKineto) != 0 && !left_to_kineto_);
  if (!beside && KinetoIsLoaded()) return DevicePhase::kKineto;
  return std::nullopt;
}

std::optional<CuptiFailure> DeviceTracer::SwitchOn() {
  // Whether graphs or their kernels have records is common to all tools that share CUPTI, and what
  // was chosen first holds until the process ends.
  const bool detach = (mode_ & wire::kDetachAfterwards) != 0;
  const bool may_share =
      manners_ != Manners::kAlone && ModeOf(mode_) != wire::DeviceMode::kGraphs && !detach;
  if (const CUptiResult result = subscription_.Begin(cupti_, may_share); result != CUPTI_SUCCESS)
    return CuptiFailure{DeviceStep::kSubscribe, result};
  undo_.emplace_back([this, detach] {
    if (detach && !let_go_ && subscription_.Detach()) return CUPTI_SUCCESS;
    return subscription_.End();
  });
  if (const CUptiResult result = subscription_.Register(
          {.give = &DeviceTracer::GiveBuffer,
           .take = &DeviceTracer::TakeBuffer,
           .give_shared = [](std::uint8_t** buffer, std::size_t* size, std::size_t* most,
                             void*) { GiveBuffer(buffer, size, most); },
           .take_shared = [](std::uint8_t* buffer, std::size_t size, std::size_t valid,
                             void*) { TakeBuffer(nullptr, 0, buffer, size, valid); }});
      result != CUPTI_SUCCESS)
    return CuptiFailure{DeviceStep::kRegisterCallbacks, result};
  // CUPTI counts what it has dropped since it was last asked, so also what it dropped of the
  // program's own profiler.
  std::size_t dropped_before = 0;
  subscription_.Dropped(nullptr, 0, &dropped_before);
  // This runs after all kinds are disabled. A forced flush also returns unfinished records of work
  // that still runs. It returns success in any case: if it fails, records are missing but nothing
  // stays enabled.
  undo_.emplace_back([this] {
    flushed_ = cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    for (int i = 0; i < kMaxFlushes && flushed_ == CUPTI_SUCCESS && RecordsAreOut(); ++i) {
      usleep(kFlushAgainAfterUs);
      if (let_go_) break;  // The program is ending, and CUPTI's destructors may run.
      flushed_ = cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    }
    return CUPTI_SUCCESS;
  });
  if (const std::optional<CuptiFailure> failure = EnableKinds(subscription_, ModeOf(mode_), undo_))
    return failure;
  std::uint64_t now = 0;
  if (const CUptiResult result = cupti_.timestamp(&now); result != CUPTI_SUCCESS)
    return CuptiFailure{DeviceStep::kTimestamp, result};
  return std::nullopt;
}

bool DeviceTracer::SwitchOff() {
  bool all = true;
  for (; !undo_.empty() && !let_go_; undo_.pop_back()) all = undo_.back()() == CUPTI_SUCCESS && all;
  dead_ = dead_ || !all;
  return all;
}

void DeviceTracer::Tick() {
  if (!armed_ || let_go_) return;
  if (const std::optional<DevicePhase> others = LeftMeanwhile()) {
    Disarm();
    if (!dead_) Report(*others, {DeviceStep::kNone, CUPTI_SUCCESS});
    return;
  }
  cupti_.flush_all(0);
  if (let_go_) return;
  WriteDevices();
  WriteClock();
}

void DeviceTracer::Disarm() {
  if (!armed_ || let_go_) return;
  armed_ = false;
  WriteClock();
  const bool off = SwitchOff();
  if (let_go_) return;
  {
    std::lock_guard<std::mutex> lock(writing_);
    texts_->Forget();  // The program gets its memory back.
  }
  file_->header()->device_buffers_lost.fetch_add(CountLostBuffers(), std::memory_order_relaxed);
  if (!off)
    Report(DevicePhase::kFailed, {DeviceStep::kSwitchOff, CUPTI_ERROR_UNKNOWN});
  else if (flushed_ != CUPTI_SUCCESS)
    Report(DevicePhase::kFailed, {DeviceStep::kFlush, flushed_});
  else
    Report(DevicePhase::kFlushed, {DeviceStep::kNone, CUPTI_SUCCESS});
}

// The driver does not answer until the program has initialized CUDA. Tick tries again, and writes
// the descriptions again before the ring overwrites them.
void DeviceTracer::WriteDevices() {
  {
    std::lock_guard<std::mutex> lock(writing_);
    const std::uint64_t position = ring_->position();
    if (devices_written_at_ &&
        position - *devices_written_at_ < wire::AgainAfter(file_->device_words()))
      return;
    devices_written_at_ = position;
  }
  int count = 0, version = 0;
  if (driver_.device_count(&count) != CUDA_SUCCESS) return devices_written_at_.reset();
  driver_.driver_version(&version);
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    if (driver_.device_get(&device, i) != CUDA_SUCCESS) continue;
    const auto attribute = [&](CUdevice_attribute which) {
      int value = 0;
      driver_.device_attribute(&value, which, device);
      return static_cast<std::uint32_t>(std::max(value, 0));
    };
    char name[128] = {};
    driver_.device_name(name, sizeof name - 1, device);
    CUuuid uuid = {};
    driver_.device_uuid(&uuid, device);
    std::size_t memory = 0;
    driver_.device_memory(&memory, device);
    wire::DeviceRecord record{
        .ordinal = static_cast<std::uint32_t>(i),
        .name = 0,
        .uuid = {},
        .memory = memory,
        .major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        .minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        .cores = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        .clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        .memory_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
        .bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
        .warp = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
        .threads = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
        .blocks = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
        .registers = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
        .shared = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        .driver_version = static_cast<std::uint32_t>(std::max(version, 0))};
    static_assert(sizeof record.uuid == sizeof uuid.bytes);
    std::memcpy(record.uuid, uuid.bytes, sizeof record.uuid);
    std::lock_guard<std::mutex> lock(writing_);
    // Copies the name, because Write would otherwise remember a pointer to this call's stack.
    const std::string kept = name;
    record.name = texts_->Write(kept.c_str(), *ring_).number;
    ring_->Record(RecordType::kDevice, record);
  }
}

void DeviceTracer::WriteClock() {
  wire::TickMoment moment;
  const auto read = [this](std::uint64_t& ns) { return cupti_.timestamp(&ns) == CUPTI_SUCCESS; };
  if (!wire::ReadTogether(file_->header()->tick_kind, read, moment)) return;
  std::lock_guard<std::mutex> lock(writing_);
  ring_->Record(
      RecordType::kClock,
      wire::ClockRecord{.device_ns = moment.other_ns,
                        .ticks = moment.ticks,
                        .lost = file_->header()->device_lost.load(std::memory_order_relaxed)});
}

void CUPTIAPI DeviceTracer::GiveBuffer(std::uint8_t** buffer, std::size_t* size,
                                       std::size_t* most) {
  *buffer = LendBuffer();
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most = 0;  // 0 means as many records as fit.
}

void CUPTIAPI DeviceTracer::TakeBuffer(CUcontext context, std::uint32_t stream,
                                       std::uint8_t* buffer, std::size_t, std::size_t valid) {
  // If another profiler registered its callbacks before the agent did, its buffers arrive here.
  if (!IsLent(buffer)) return;
  DeviceTracer& self = TheDeviceTracer();
  if (std::lock_guard<std::mutex> lock(self.writing_); self.ring_) {
    ActivityWriter writer(&DeviceTracer::NameOfCall, *self.texts_, *self.ring_);
    CUpti_Activity* record = nullptr;
    valid = std::min(valid, kBufferBytes);
    while (valid > 0 && self.subscription_.NextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
      writer.Write(*record);
    std::size_t dropped = 0;
    if (self.subscription_.Dropped(context, stream, &dropped) == CUPTI_SUCCESS)
      self.file_->header()->device_lost.fetch_add(dropped, std::memory_order_relaxed);
  }
  ReturnBuffer(buffer);
}

const char* DeviceTracer::NameOfCall(CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  const char* name = nullptr;
  const Cupti& cupti = TheDeviceTracer().cupti_;
  if (cupti.callback_name == nullptr || cupti.callback_name(domain, id, &name) != CUPTI_SUCCESS)
    return nullptr;
  return name;
}

}  // namespace strobe::agent
