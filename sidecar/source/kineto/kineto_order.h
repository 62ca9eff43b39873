// What one process with PyTorch is told to record through Kineto's on-demand protocol. Pure.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::source {

struct KinetoOrder {
  // The trace's path, ending with ".json". The process adds its ID to the name.
  std::string path{};
  std::string capture_id{};
  MonoTime start{};
  Nanos duration{};
  std::chrono::seconds warm_up{0};
  std::string activities{};  // Kineto's names of event types, separated by commas.
  bool shapes = false, stacks = false, memory = false;  // As those of v1::Tracers.

  MonoTime end() const { return start + duration; }
  // How long before its start a process must have read the order. Kineto looks at its orders once a
  // second, and silently drops those that it sees later than their warm-up.
  Nanos Ahead() const;
};

// The longest warm-up of an order. CUPTI needs it; see Ahead.
inline constexpr std::chrono::seconds kKinetoWarmUp{1};

// The order for a plan whose recording begins at `start`. Records at most `max_duration` of the
// window, because nothing can end such a recording early.
KinetoOrder MakeKinetoOrder(const v1::CapturePlan& plan, MonoTime start, Nanos max_duration,
                            std::string path);

// The order as Kineto's configuration. `start` is order.start on the wall clock.
std::string KinetoText(const KinetoOrder& order, WallTime start);

// The path of the trace that the process `pid` writes. While it writes, ".tmp" follows.
std::string KinetoTracePath(const KinetoOrder& order, std::uint32_t pid);

// Why Kineto cannot be told to write below this directory; empty if it can.
std::string WhyNoKinetoDirectory(const std::string& directory);

}  // namespace strobe::source
