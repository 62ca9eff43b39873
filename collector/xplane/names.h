// Well-known names of the XPlane format (facts; read from XLA's xplane_schema).
#pragma once
#include <string_view>

namespace strobe::xplane {

inline constexpr std::string_view kTaskEnvironmentPlane = "Task Environment";
inline constexpr std::string_view kHostPlane = "/host:CPU";
inline constexpr std::string_view kDevicePrefix = "/device:";
// The profiler's own start and stop, Unix nanoseconds: the only absolute times in a saved trace.
inline constexpr std::string_view kProfileStart = "profile_start_time";
inline constexpr std::string_view kProfileStop = "profile_stop_time";
// Ours: what a reader needs to align this trace with its siblings without the manifest.
inline constexpr std::string_view kStrobePlane = "Strobe";

}  // namespace strobe::xplane
