// Well-known names of the XPlane format (facts; read from XLA's xplane_schema).
#pragma once
#include <cstdint>
#include <string_view>

namespace strobe::xplane {

// Fields of an XSpace that are texts.
inline constexpr std::uint32_t kErrorsField = 2, kWarningsField = 3;

inline constexpr std::string_view kTaskEnvironmentPlane = "Task Environment";
inline constexpr std::string_view kHostPlane = "/host:CPU";
inline constexpr std::string_view kDevicePrefix = "/device:";
inline constexpr std::string_view kGpuPrefix = "/device:GPU:";
inline constexpr std::string_view kNvtxPlane = "/host:NVTX-CUPTI";
// Lines that hold one value per event instead of spans of time.
inline constexpr std::string_view kCounterLine = "_counters_";
// The profiler's own start and stop, Unix nanoseconds: the only absolute times in a saved trace.
// Lines' time stamps count from the start.
inline constexpr std::string_view kProfileStart = "profile_start_time";
inline constexpr std::string_view kProfileStop = "profile_stop_time";
// Ours, where a trace reaches back: when recording was asked to begin.
inline constexpr std::string_view kRecordingStart = "recording_start_time";
// Ours: what a reader needs to align this trace with its siblings without the manifest.
inline constexpr std::string_view kStrobePlane = "Strobe";
// Its stats about the worker's processes: one each, a strobe.v1.ProcessReport as JSON, and how many
// more there were.
inline constexpr std::string_view kProcess = "process";
inline constexpr std::string_view kProcessesLeftOut = "processes_left_out";

}  // namespace strobe::xplane
