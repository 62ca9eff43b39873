// Where the time of one worker's steps went, as shares of it. Pure.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collector/trace/digest/digest.h"

namespace strobe::report {

// Why a device does not compute. No two of them overlap.
enum class LostPart : std::uint8_t {
  kLaunches,  // It waits for the host to launch its next work.
  kInput,
  kGarbageCollection,
  kCommunication,  // Nothing hides it.
  kCopies,         // Nothing hides them.
  kOtherIdle,      // The trace gives no reason.
};
inline constexpr std::size_t kLostParts = 6;

struct LostTime {
  bool measured = false;  // The trace can tell it.
  double share = 0;
  // The step of which it took most, by its number; nullopt without steps.
  std::optional<std::int64_t> step{};
};

struct WorkerTime {
  bool has_device = false;       // The trace tells what ran on a device.
  std::string device{};          // "GPU", "TPU", "CPU" or "device".
  std::string communication{};   // "NCCL", "RCCL" or "communication".
  double busy = 0, compute = 0;  // Anything runs; the program computes.
  std::array<LostTime, kLostParts> lost{};
  std::optional<double> memory{};  // The largest share of a device's memory that was in use.
};

// The steps are those of the loop that takes most of the time. Without steps, it is the whole
// recording.
WorkerTime WorkerTimeOf(const digest::Digest& digest);

// "GPU busy 21%; 64% waiting for launches; 5% exposed NCCL".
std::string WorkerTimeText(const WorkerTime& time);
// "waiting for launches".
std::string LostPartText(LostPart part, std::string_view communication);

}  // namespace strobe::report
