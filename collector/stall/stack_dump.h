// The Python stacks of a process's threads, in the formats of Strobe's agent, of faulthandler and
// of py-spy dump.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe::stall {

inline constexpr std::size_t kMaxStackBytes = std::size_t{32} << 20;
inline constexpr std::size_t kMaxThreads = 4096, kMaxFrames = 200'000;  // Limits of one process.

struct StackFrame {
  std::string file{};
  int line = 0;
  std::string name{};  // Qualified, from Python 3.11 on: "Loader.next".

  bool operator==(const StackFrame&) const = default;
};

struct StackThread {
  std::uint64_t id = 0;   // pthread_self(), or the kernel's.
  std::uint64_t tid = 0;  // The kernel's; 0 if not told.
  std::string name{};
  std::string state{};  // The kernel's letter: "S"; empty if not told.
  std::string wchan{};  // The kernel's function in which it sleeps.
  std::int64_t syscall = -1;
  std::int64_t ran_ns = -1;  // On a processor so far; -1 if not told.
  bool holds_gil = false;
  // It ran while its stack was read, so that the frames may belong to different moments.
  bool running = false;
  std::vector<StackFrame> frames{};  // Innermost first.
};

struct StackDump {
  std::vector<StackThread> threads{};
  std::size_t main = 0;           // Index of the main thread.
  std::int64_t looked_at_ns = 0;  // Since 1970; 0 if not told.

  const StackThread* main_thread() const {
    return main < threads.size() ? &threads[main] : nullptr;
  }
  const StackThread* gil_holder() const;
};

bool LooksLikeStacks(std::string_view text);

// DataLoss if no thread is found in the text.
absl::StatusOr<StackDump> ReadStacks(std::string_view text);

// What the main thread was doing, as far as its Python frames tell. Work.wait() is written in C++,
// so that a thread in it looks like one on the host.
enum class MainDoing : std::uint8_t {
  kUnknown,
  kCollective,  // In a call of torch.distributed that waits for others.
  kRendezvous,  // In one that waits until all have come: new_group, init_process_group.
  kHost,
};

struct MainThread {
  MainDoing doing = MainDoing::kUnknown;
  std::string call{};  // The call of torch.distributed: "all_reduce".
};

MainThread MainThreadOf(const StackDump& stacks);

// The innermost frame that belongs to no library, or else the innermost one. The thread must have
// frames.
const StackFrame& OwnFrame(const StackThread& thread);

// "loader.py:88 in Loader.next"
std::string FrameText(const StackFrame& frame);

}  // namespace strobe::stall
