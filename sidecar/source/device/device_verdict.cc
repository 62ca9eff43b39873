#include "sidecar/source/device/device_verdict.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/base/enum_names.h"
#include "common/base/strings.h"

namespace strobe::source {
namespace {

using wire::DevicePhase;
using wire::DeviceStep;

struct ResultInfo {
  std::uint32_t result;
  std::string_view name;
  Outcome outcome;
  std::string_view meaning;
};

// The results that enabling CUPTI may return (cupti_result.h), and the outcome for each.
constexpr std::array kResults = {
    ResultInfo{7, "CUPTI_ERROR_INVALID_OPERATION", Outcome::kProfilerStartFailed, ""},
    ResultInfo{8, "CUPTI_ERROR_OUT_OF_MEMORY", Outcome::kProfilerStartFailed,
               "CUPTI is out of memory"},
    ResultInfo{9, "CUPTI_ERROR_HARDWARE", Outcome::kProfilerStartFailed, ""},
    ResultInfo{13, "CUPTI_ERROR_NOT_READY", Outcome::kProfilerStartFailed, ""},
    ResultInfo{
        14, "CUPTI_ERROR_NOT_COMPATIBLE", Outcome::kVersionMismatch,
        "this version of CUPTI does not match the driver, or another profiling mode is active"},
    ResultInfo{15, "CUPTI_ERROR_NOT_INITIALIZED", Outcome::kProfilerStartFailed,
               "CUPTI found no working driver"},
    ResultInfo{21, "CUPTI_ERROR_INVALID_KIND", Outcome::kVersionMismatch,
               "this version of CUPTI does not support this kind of record"},
    ResultInfo{23, "CUPTI_ERROR_DISABLED", Outcome::kBusy,
               "another tool has disabled CUPTI in this process"},
    ResultInfo{26, "CUPTI_ERROR_HARDWARE_BUSY", Outcome::kBusy,
               "another profiler (DCGM, Nsight) holds the device"},
    ResultInfo{27, "CUPTI_ERROR_NOT_SUPPORTED", Outcome::kProfilerStartFailed,
               "the device does not support profiling"},
    ResultInfo{33, "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED", Outcome::kProfilerStartFailed,
               "the device is virtual"},
    ResultInfo{35, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", Outcome::kPermissionDenied,
               "the driver allows only administrators to profile"},
    ResultInfo{36, "CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED", Outcome::kBusy,
               "an older profiler holds CUPTI in this process"},
    ResultInfo{38, "CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED", Outcome::kVersionMismatch, ""},
    ResultInfo{39, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", Outcome::kBusy,
               "another profiler holds CUPTI in this process"},
    ResultInfo{40, "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES",
               Outcome::kPermissionDenied,
               "the host of the virtual device does not allow profiling"},
    ResultInfo{41, "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED", Outcome::kPermissionDenied,
               "the device is in confidential mode"},
    ResultInfo{43, "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED", Outcome::kProfilerStartFailed,
               "the device is a MIG slice"},
    ResultInfo{999, "CUPTI_ERROR_UNKNOWN", Outcome::kProfilerStartFailed, ""},
};

const ResultInfo* Find(std::uint32_t result) {
  const auto found = std::find_if(kResults.begin(), kResults.end(),
                                  [&](const ResultInfo& info) { return info.result == result; });
  return found == kResults.end() ? nullptr : found;
}

std::string_view Describe(DeviceStep step) {
  static constexpr EnumNames<DeviceStep, 10> kNames(
      {{DeviceStep::kNone, "recording the device"},
       {DeviceStep::kSubscribe, "subscribing to CUPTI"},
       {DeviceStep::kRegisterCallbacks, "registering buffers with CUPTI"},
       {DeviceStep::kEnableKernels, "enabling the recording of kernels"},
       {DeviceStep::kEnableCopies, "enabling the recording of copies"},
       {DeviceStep::kTimestamp, "reading CUPTI's clock"},
       {DeviceStep::kReserve, "reserving space for records"},
       {DeviceStep::kSwitchOff, "disabling CUPTI"},
       {DeviceStep::kFlush, "recording the device"},
       {DeviceStep::kEnableGraphs, "enabling the recording of whole CUDA graphs"}});
  return kNames.Of(step, "recording the device");
}

DeviceVerdict Failed(const DeviceStatus& status) {
  if (status.step == DeviceStep::kReserve)
    return {Outcome::kProfilerStartFailed,
            "the shared volume has no space for device records; enlarge the emptyDir by 32Mi"};
  if (status.step == DeviceStep::kSwitchOff)
    return {Outcome::kProfilerStartFailed,
            "CUPTI could not be disabled and is not used again until the program restarts"};
  const ResultInfo* info = Find(status.result);
  const std::string name = CuptiResultName(status.result);
  if (status.step == DeviceStep::kFlush)
    return {Outcome::kEventsDropped,
            StrCat("device records are missing: fetching CUPTI's last records failed: ", name)};
  if (info == nullptr)
    return {Outcome::kProfilerStartFailed, StrCat(Describe(status.step), " failed: ", name)};
  return {info->outcome,
          StrCat(Describe(status.step), " failed: ", name, info->meaning.empty() ? "" : ": ",
                 info->meaning, status.holder.empty() ? "" : ": ", status.holder)};
}

// True if devices were recorded, whatever became of the records.
bool Recorded(const DeviceStatus& status) {
  return status.answered &&
         (status.phase == DevicePhase::kArmed || status.phase == DevicePhase::kFlushed);
}

}  // namespace

std::string CuptiResultName(std::uint32_t result) {
  const ResultInfo* info = Find(result);
  return info == nullptr ? StrCat("CUPTI error ", result) : std::string(info->name);
}

DeviceVerdict JudgeDevice(const DeviceStatus& status) {
  if (!status.was_asked) return {};
  if (status.refusal == wire::DeviceRefusal::kSwitchedOff)
    return {Outcome::kDeviceTraceMissing,
            "its devices were not recorded because its environment has STROBE_DEVICE=off, or "
            "devices in STROBE_DISABLE (strobe.dev/disable)"};
  if (status.refusal == wire::DeviceRefusal::kNoThread)
    return {Outcome::kProfilerStartFailed,
            "the agent could not start a thread in the program to record its devices; raise the "
            "program's thread limit (pids, ulimit -u)"};
  if (!status.answered) {
    // Without CUDA there is no device thread, and nothing to record.
    if (!status.uses_cuda) return {};
    return {Outcome::kProfilerStartFailed,
            "the agent's device thread did not answer; the program may have been stopped"};
  }
  switch (status.phase) {
    case DevicePhase::kIdle:
    case DevicePhase::kNoCuda:
      return {};
    case DevicePhase::kNoCupti:
      return {Outcome::kCuptiUnavailable,
              "no libcupti.so.12 or .13 that matches the driver was found; add CUPTI to the image, "
              "or set STROBE_CUPTI to its path"};
    case DevicePhase::kFramework:
      return {Outcome::kOk, "its devices were left to its own profiler server"};
    case DevicePhase::kKineto:
      return {Outcome::kDeviceTraceMissing,
              "PyTorch's own profiler (Kineto) is in this process, and recording devices at the "
              "same time would disable the program's own GPU profiling until it restarts; set "
              "STROBE_DEVICE=force in the program's environment to record them anyway"};
    case DevicePhase::kFailed:
      return Failed(status);
    case DevicePhase::kArmed:
      return {Outcome::kEventsDropped,
              "device records are missing: CUPTI did not return its last records in time"};
    case DevicePhase::kFlushed:
      break;
  }
  if (status.buffers_lost > 0) {
    return {Outcome::kEventsDropped,
            StrCat(status.buffers_lost,
                   " buffers of device records are missing: another profiler in the process took "
                   "over CUPTI during the capture, or a call of CUDA did not end with it")};
  }
  if (status.mistimed > 0) {
    return {Outcome::kEventsDropped,
            StrCat(status.mistimed,
                   " kernels are missing or misplaced: CUPTI told no time for them, or one before "
                   "their launch")};
  }
  if (status.lost > 0) {
    return {Outcome::kEventsDropped, StrCat(status.lost,
                                            " device records are missing: the program produced "
                                            "them faster than CUPTI's buffers could be read")};
  }
  return {};
}

std::string DescribeRecording(const DeviceStatus& status) {
  if (!Recorded(status)) return "";
  std::string text;
  if (!status.holder.empty()) text = StrCat("CUPTI was shared with ", status.holder);
  const std::string_view left_out = LeftOutOf(status.mode);
  if (left_out.empty()) return text;
  return StrCat(text, text.empty() ? "" : "; ", "GPUs were recorded by mode ",
                kDeviceModes[static_cast<std::size_t>(status.mode)], ": the trace shows ",
                left_out);
}

bool IsMuchLeftOut(const DeviceStatus& status) {
  return Recorded(status) &&
         (status.mode == DeviceMode::kKernels || status.mode == DeviceMode::kGraphs);
}

}  // namespace strobe::source
