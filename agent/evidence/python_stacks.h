// The Python stacks of all threads, read from memory that the threads change meanwhile. It takes no
// lock and calls nothing of the interpreter. Whatever the memory holds, reading ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/evidence/memory_view.h"
#include "agent/evidence/python_layout.h"
#include "agent/evidence/thread_facts.h"

namespace strobe::agent {

inline constexpr std::size_t kMaxStackThreads = 1024, kMaxStackDepth = 2000,
                             kMaxStackFrames = 100'000;

struct PythonFrame {
  std::string file{}, name{};  // UTF-8 without control characters.
  int line = -1;               // -1 if unknown.
};

// How sure a stack is.
enum class StackProof : std::uint8_t {
  kRunning,  // The thread ran while it was read: the frames may belong to different moments.
  kStable,   // It looked unchanged, which a thread in a loop may do by chance.
  kProven    // The kernel says that the thread has not run meanwhile.
};

struct PythonThread {
  std::uint64_t id = 0;   // pthread_self().
  std::uint64_t tid = 0;  // The kernel's; 0 if not known.
  StackProof proof = StackProof::kRunning;
  bool holds_gil = false;
  std::vector<PythonFrame> frames{};  // Innermost first.
};

struct PythonStacks {
  std::vector<PythonThread> threads{};  // Newest first, the main thread last.
  bool gil_is_held = false;
  bool cut = false;  // A limit was reached: time, threads or frames.
};

// What the reader needs of the process.
struct PythonProcess {
  std::uint64_t runtime = 0;    // The address of _PyRuntime,
  std::uint64_t code_type = 0;  // and of PyCode_Type.
  // Where the C library keeps a thread's number in the kernel, from pthread_self(); -1 if unknown.
  // Python before 3.11 does not have it.
  int tid_in_pthread = -1;
  std::uint64_t pid = 0;
};

class StackReader {
 public:
  // Empty if the thread may be running; otherwise a text that changes if it runs.
  using Asleep = std::function<std::string(std::uint64_t tid)>;
  // True once reading has taken too long.
  using IsLate = std::function<bool()>;

  // `memory` outlives it.
  StackReader(const MemoryView& memory, const PythonLayout& layout, const PythonProcess& process)
      : memory_(memory), layout_(layout), process_(process) {}

  PythonStacks Read(const Asleep& asleep, const IsLate& is_late);
  // The stack of the calling thread, which must hold the interpreter's lock.
  PythonThread ReadThread(std::uint64_t tid);

 private:
  struct RawFrame {
    std::uint64_t at = 0, code = 0, instruction = 0;
    int line = 0;
    bool operator==(const RawFrame&) const = default;
  };
  struct Code {
    bool ok = false;
    std::string file{}, name{};
    int first_line = 0;
    std::vector<std::uint8_t> lines{};
  };

  // Calls `visit` with the address of each thread's state until it returns false.
  template <typename Visit>
  void ForEachThread(const Visit& visit);
  std::uint64_t HolderOf(std::uint64_t interpreter) const;
  std::uint64_t TidOf(std::uint64_t thread) const;
  std::uint64_t TopOf(std::uint64_t thread) const;
  bool ReadFrame(std::uint64_t at, RawFrame& frame, std::uint64_t& previous, bool& shown) const;
  // False if something changed meanwhile.
  bool Walk(std::uint64_t thread, std::vector<RawFrame>& frames);
  // Reads the frames of `read`, how sure they are, and whether the thread has the lock meanwhile.
  // True if a thread has it.
  bool Prove(std::uint64_t interpreter, std::uint64_t thread, const Asleep& asleep,
             PythonThread& read);
  std::vector<PythonFrame> Named(const std::vector<RawFrame>& frames);
  const Code& CodeAt(std::uint64_t at);
  std::string TextAt(std::uint64_t at) const;

  const MemoryView& memory_;
  const PythonLayout layout_;
  const PythonProcess process_;
  std::unordered_map<std::uint64_t, Code> codes_;
  bool cut_ = false;
};

inline constexpr std::size_t kMaxStacksText = std::size_t{4} << 20;

// The text of a process's stacks, as collector/stall/stack_dump.h reads it. Pure. At most
// kMaxStacksText; whole frames are left out behind it. `looked_at_ns` is since 1970.
std::string StacksText(const PythonStacks& stacks, int minor, std::int64_t looked_at_ns,
                       const std::function<ThreadFacts(std::uint64_t tid)>& facts);

}  // namespace strobe::agent
