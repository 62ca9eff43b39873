// What a capture records of GPUs, and what a trace of each mode cannot show.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace strobe {

// The numbers are those of v1::Tracers.device and of wire::DeviceMode.
enum class DeviceMode : std::uint32_t {
  kDisabled = 0,
  kEnabled = 1,   // Each recorder uses its default; the agent's is kLaunches.
  kKernels = 2,   // What ran on devices.
  kLaunches = 3,  // As kKernels, with the calls that launched it: the cheapest with launch arrows.
  kGraphs = 4,    // As kLaunches, but the run of a CUDA graph is one event.
  kAll = 5        // All calls of CUDA, allocations and the profiler's own overhead.
};

// The names that the API has for the modes. The index of a name is its number.
inline constexpr std::array<std::string_view, 6> kDeviceModes = {"Disabled", "Enabled", "Kernels",
                                                                 "Launches", "Graphs",  "All"};

// The mode with this number, as the agent records it; numbers that are not known mean the default.
constexpr DeviceMode AgentsMode(std::uint32_t number) {
  const auto mode = static_cast<DeviceMode>(number);
  const bool chosen = mode == DeviceMode::kKernels || mode == DeviceMode::kGraphs ||
                      mode == DeviceMode::kAll || mode == DeviceMode::kDisabled;
  return chosen ? mode : DeviceMode::kLaunches;
}

// True if only what ran on devices is wanted, and none of a framework's operators.
constexpr bool WantsOnlyKernels(std::uint32_t number) {
  return number == static_cast<std::uint32_t>(DeviceMode::kKernels);
}

// What a trace that the agent recorded in the mode cannot show, human-readable; empty if nothing.
constexpr std::string_view LeftOutOf(DeviceMode mode) {
  switch (mode) {
    case DeviceMode::kKernels:
      return "no calls of CUDA, so that no kernel leads to its launch and launch delays are not "
             "known, no NVTX ranges and no allocations";
    case DeviceMode::kLaunches:
      return "only those calls of CUDA that launch work, and no allocations";
    case DeviceMode::kGraphs:
      return "not the kernels within CUDA graphs, each run of which is one event, only those "
             "calls of CUDA that launch work, and no allocations";
    default:
      return "";
  }
}

}  // namespace strobe
