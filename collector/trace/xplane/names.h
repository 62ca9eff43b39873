// Well-known names of the XPlane format, as in XLA's xplane_schema.
#pragma once
#include <cstdint>
#include <string_view>

namespace strobe::xplane {

// Field numbers of an XSpace's errors and warnings.
inline constexpr std::uint32_t kErrorsField = 2, kWarningsField = 3;

inline constexpr std::string_view kTaskEnvironmentPlane = "Task Environment";
inline constexpr std::string_view kHostPlane = "/host:CPU";
inline constexpr std::string_view kDevicePrefix = "/device:";
inline constexpr std::string_view kGpuPrefix = "/device:GPU:";
enum class PlaneKind : std::uint8_t {
  kGpu,
  kOtherDevice,  // A TPU, for example, or a part of one.
  // "/device:CUSTOM:...", which holds what a plugin of the profiler recorded of something else,
  // such as the network between TPU slices.
  kCustom,
  kHost,
  kOther,  // What the trace tells of itself, such as kTaskEnvironmentPlane.
};
// The kind of the plane of this name.
inline PlaneKind PlaneKindOf(std::string_view plane) {
  if (plane.starts_with(kGpuPrefix)) return PlaneKind::kGpu;
  if (plane.starts_with("/device:CUSTOM:")) return PlaneKind::kCustom;
  if (plane.starts_with(kDevicePrefix)) return PlaneKind::kOtherDevice;
  return plane.starts_with("/host:") ? PlaneKind::kHost : PlaneKind::kOther;
}
inline bool IsDevicePlane(std::string_view plane) {
  return PlaneKindOf(plane) == PlaneKind::kGpu || PlaneKindOf(plane) == PlaneKind::kOtherDevice;
}
// May the plane have threads of programs? Traces of other tools give theirs any name.
inline bool MayHaveThreads(std::string_view plane) {
  return PlaneKindOf(plane) == PlaneKind::kHost || PlaneKindOf(plane) == PlaneKind::kOther;
}
// Holds the HLO of each module that ran, one event name per module and no events.
inline constexpr std::string_view kMetadataPlane = "/host:metadata";
inline constexpr std::string_view kNvtxPlane = "/host:NVTX-CUPTI";
// Strobe's own: the collectives that programs told themselves. A line per communicator has the
// program's calls. One whose name ends with kOnDevice has the same calls at the devices' times.
inline constexpr std::string_view kCollectivesPlane = "/host:NCCL", kOnDevice = " (device)";
// The name of lines whose events are values of a counter, not spans of time.
inline constexpr std::string_view kCounterLine = "_counters_";
// The profiler's start and stop in Unix nanoseconds. They are the only absolute times in a saved
// trace; time stamps of lines count from the start.
inline constexpr std::string_view kProfileStart = "profile_start_time";
inline constexpr std::string_view kProfileStop = "profile_stop_time";
// Strobe's own: the planned start of a recording that reaches back in time.
inline constexpr std::string_view kRecordingStart = "recording_start_time";
// Strobe's own: the name of an event as its profiler wrote it, where conversion gave it that of its
// kind. Such events are the steps of PyTorch, `ProfilerStep#12`, whose kind is `ProfilerStep`, and
// the iterations of inference servers, such as `step[DECODE bs=8]`.
inline constexpr std::string_view kOwnName = "_own_name", kTorchStep = "ProfilerStep";
// Strobe's own plane, which lets a reader align this trace with those of other workers without the
// manifest.
inline constexpr std::string_view kStrobePlane = "Strobe";
// Stats of the Strobe plane: one strobe.v1.ProcessReport as JSON per process, and the number of
// processes beyond those.
inline constexpr std::string_view kProcess = "process";
inline constexpr std::string_view kProcessesLeftOut = "processes_left_out";

}  // namespace strobe::xplane
