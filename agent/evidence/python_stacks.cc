#include "agent/evidence/python_stacks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "agent/evidence/python_layout.h"
#include "agent/evidence/utf8_text.h"

namespace strobe::agent {

namespace {

constexpr int kMaxInterpreters = 16, kProofTries = 6;
constexpr long kBetweenProofsNs = 700'000;
constexpr std::uint64_t kMaxTextCharacters = 512, kMaxLineTable = 256 << 10;
constexpr std::size_t kMaxCodes = 20'000;
// A frame with a larger owner is none of a function: the interpreter put it there.
constexpr std::uint8_t kLastFunctionOwner = 2;

template <typename Value>
Value ValueAt(const std::uint8_t* bytes, int offset) {
  Value value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

std::uint64_t Plus(std::uint64_t address, int offset) {
  return address + static_cast<std::uint64_t>(offset);
}

}  // namespace

template <typename Visit>
void StackReader::ForEachThread(const Visit& visit) {
  std::uint64_t interpreter = 0;
  memory_.Get(Plus(process_.runtime, layout_.interpreters), interpreter);
  for (int i = 0; interpreter != 0 && i < kMaxInterpreters; ++i) {
    std::uint64_t thread = 0, next = 0;
    memory_.Get(Plus(interpreter, layout_.threads), thread);
    for (std::size_t n = 0; thread != 0; ++n) {
      if (n == kMaxStackThreads) {
        cut_ = true;
        break;
      }
      std::uint64_t following = 0;
      if (!memory_.Get(Plus(thread, layout_.thread_next), following)) break;
      if (!visit(interpreter, thread)) return;
      thread = following;
    }
    memory_.Get(Plus(interpreter, layout_.interpreter_next), next);
    interpreter = next;
  }
}

// The state of the thread that holds the interpreter's lock; 0 if nobody does.
std::uint64_t StackReader::HolderOf(std::uint64_t interpreter) const {
  std::uint64_t gil = 0, holder = 0;
  if (layout_.gil_in_runtime >= 0)
    gil = Plus(process_.runtime, layout_.gil_in_runtime);
  else
    memory_.Get(Plus(interpreter, layout_.gil_in_interpreter), gil);
  int locked = 0;
  if (gil == 0 || !memory_.Get(Plus(gil, layout_.gil_locked), locked) || locked != 1) return 0;
  memory_.Get(Plus(gil, layout_.gil_holder), holder);
  return holder;
}

std::uint64_t StackReader::TidOf(std::uint64_t thread) const {
  if (layout_.native_id >= 0) {
    std::uint64_t tid = 0;
    memory_.Get(Plus(thread, layout_.native_id), tid);
    return tid;
  }
  std::uint64_t pthread = 0;
  std::int32_t tid = 0;
  if (process_.tid_in_pthread < 0 || !memory_.Get(Plus(thread, layout_.thread_id), pthread) ||
      pthread == 0)
    return 0;
  memory_.Get(Plus(pthread, process_.tid_in_pthread), tid);
  return tid > 0 ? static_cast<std::uint64_t>(tid) : 0;
}

std::uint64_t StackReader::TopOf(std::uint64_t thread) const {
  std::uint64_t holder = thread, frame = 0;
  if (layout_.call_frame >= 0) {
    holder = 0;
    memory_.Get(Plus(thread, layout_.call_frame), holder);
    if (holder == 0) return 0;
  }
  memory_.Get(Plus(holder, layout_.frame), frame);
  return frame;
}

bool StackReader::ReadFrame(std::uint64_t at, RawFrame& frame, std::uint64_t& previous,
                            bool& shown) const {
  std::array<std::uint8_t, kMaxFrameBytes> raw{};
  const auto size = static_cast<std::size_t>(layout_.frame_bytes);
  if (size > raw.size() || !memory_.Read(at, raw.data(), size)) return false;
  previous = ValueAt<std::uint64_t>(raw.data(), layout_.frame_previous);
  frame = {.at = at,
           .code = ValueAt<std::uint64_t>(raw.data(), layout_.frame_code) & layout_.code_mask};
  if (layout_.instruction == Instruction::kPointer)
    frame.instruction = ValueAt<std::uint64_t>(raw.data(), layout_.frame_instruction);
  else
    frame.instruction = static_cast<std::uint64_t>(
        std::int64_t{ValueAt<std::int32_t>(raw.data(), layout_.frame_instruction)});
  if (layout_.frame_line >= 0) frame.line = ValueAt<std::int32_t>(raw.data(), layout_.frame_line);
  shown = layout_.frame_owner < 0 ||
          raw[static_cast<std::size_t>(layout_.frame_owner)] <= kLastFunctionOwner;
  return true;
}

bool StackReader::Walk(std::uint64_t thread, std::vector<RawFrame>& frames) {
  frames.clear();
  const std::uint64_t top = TopOf(thread);
  RawFrame first{};
  std::size_t depth = 0;
  for (std::uint64_t at = top; at != 0; ++depth) {
    if (depth == kMaxStackDepth) {
      cut_ = true;
      break;
    }
    RawFrame frame{};
    std::uint64_t previous = 0;
    bool shown = false;
    if (!ReadFrame(at, frame, previous, shown) || previous == at) return false;
    if (depth == 0) first = frame;
    if (shown) frames.push_back(frame);
    at = previous;
  }
  if (top == 0) return TopOf(thread) == 0;
  // Frames below the innermost one are suspended in their calls.
  RawFrame again{};
  std::uint64_t previous = 0;
  bool shown = false;
  return TopOf(thread) == top && ReadFrame(top, again, previous, shown) && again == first;
}

// The names are read before the thread is seen to have slept all the time: code that it has left
// may be freed, and something else may be there. For the same reason nothing is remembered of the
// threads before. A thread that waits for the lock wakes each 5 ms, so that a second try may
// succeed.
bool StackReader::Prove(std::uint64_t interpreter, std::uint64_t thread, const Asleep& asleep,
                        PythonThread& read) {
  std::vector<RawFrame> frames;
  bool is_held = false;
  for (int i = 0; i < kProofTries; ++i) {
    if (i > 0) {
      const timespec pause{0, kBetweenProofsNs};
      nanosleep(&pause, nullptr);
    }
    const std::uint64_t holder = HolderOf(interpreter);
    const std::string before = read.tid == 0 ? std::string() : asleep(read.tid);
    const bool stable = Walk(thread, frames);
    const bool may_be_better = i + 1 < kProofTries || read.proof == StackProof::kStable;
    if (!stable && may_be_better) continue;
    codes_.clear();
    read.frames = Named(frames);
    read.proof = stable ? StackProof::kStable : StackProof::kRunning;
    is_held = holder != 0 && holder == HolderOf(interpreter);
    read.holds_gil = is_held && holder == thread;
    if (!stable || before.empty() || before != asleep(read.tid)) continue;
    read.proof = StackProof::kProven;
    break;
  }
  return is_held;
}

PythonStacks StackReader::Read(const Asleep& asleep, const IsLate& is_late) {
  PythonStacks stacks;
  cut_ = false;
  std::size_t frames_read = 0;
  ForEachThread([&](std::uint64_t interpreter, std::uint64_t thread) {
    if (stacks.threads.size() == kMaxStackThreads || frames_read > kMaxStackFrames || is_late()) {
      cut_ = true;
      return false;
    }
    PythonThread read;
    memory_.Get(Plus(thread, layout_.thread_id), read.id);
    read.tid = TidOf(thread);
    const bool is_held = Prove(interpreter, thread, asleep, read);
    stacks.gil_is_held = stacks.gil_is_held || is_held;
    frames_read += read.frames.size();
    stacks.threads.push_back(std::move(read));
    return true;
  });
  // Readers take the last thread for the main one.
  std::stable_partition(stacks.threads.begin(), stacks.threads.end(),
                        [this](const PythonThread& thread) { return thread.tid != process_.pid; });
  stacks.cut = cut_;
  return stacks;
}

PythonThread StackReader::ReadThread(std::uint64_t tid) {
  PythonThread read;
  ForEachThread([&](std::uint64_t interpreter, std::uint64_t thread) {
    if (TidOf(thread) != tid) return true;
    std::vector<RawFrame> frames;
    memory_.Get(Plus(thread, layout_.thread_id), read.id);
    read.tid = tid;
    read.proof = Walk(thread, frames) ? StackProof::kStable : StackProof::kRunning;
    read.holds_gil = HolderOf(interpreter) == thread;
    read.frames = Named(frames);
    return false;
  });
  return read;
}

std::vector<PythonFrame> StackReader::Named(const std::vector<RawFrame>& frames) {
  std::vector<PythonFrame> named;
  named.reserve(frames.size());
  for (const RawFrame& frame : frames) {
    const Code& code = CodeAt(frame.code);
    if (!code.ok) continue;
    std::int64_t offset = 0;
    if (layout_.instruction == Instruction::kPointer)
      offset =
          static_cast<std::int64_t>(frame.instruction - Plus(frame.code, layout_.code_bytecode));
    else
      offset = static_cast<std::int64_t>(frame.instruction) *
               (layout_.instruction == Instruction::kUnitIndex ? 2 : 1);
    const int line =
        frame.line > 0 ? frame.line : LineOf(layout_.minor, code.lines, code.first_line, offset);
    named.push_back({.file = code.file, .name = code.name, .line = line});
  }
  return named;
}

const StackReader::Code& StackReader::CodeAt(std::uint64_t at) {
  static const Code& none =
      *new Code;  // Never destroyed: a thread may read while the program ends.
  const auto known = codes_.find(at);
  if (known != codes_.end()) return known->second;
  if (codes_.size() == kMaxCodes) return none;
  Code& code = codes_[at];
  std::array<std::uint8_t, kMaxCodeBytes> raw{};
  const auto size = static_cast<std::size_t>(layout_.code_bytes);
  if (at == 0 || size > raw.size() || !memory_.Read(at, raw.data(), size)) return code;
  if (ValueAt<std::uint64_t>(raw.data(), layout_.type) != process_.code_type) return code;
  code.file = TextAt(ValueAt<std::uint64_t>(raw.data(), layout_.code_file));
  code.name = TextAt(ValueAt<std::uint64_t>(raw.data(), layout_.code_name));
  code.first_line = ValueAt<std::int32_t>(raw.data(), layout_.code_first_line);
  const auto lines = ValueAt<std::uint64_t>(raw.data(), layout_.code_lines);
  std::uint64_t bytes = 0;
  if (memory_.Get(Plus(lines, layout_.bytes_size), bytes) && bytes <= kMaxLineTable) {
    code.lines.resize(bytes);
    if (bytes > 0 && !memory_.Read(Plus(lines, layout_.bytes_data), code.lines.data(), bytes))
      code.lines.clear();
  }
  code.ok = !code.file.empty() && !code.name.empty();
  return code;
}

// Empty if it is no text that is stored in one piece, as names of code are.
std::string StackReader::TextAt(std::uint64_t at) const {
  std::uint64_t length = 0;
  std::uint32_t state = 0;
  if (at == 0 || !memory_.Get(Plus(at, layout_.text_length), length) ||
      !memory_.Get(Plus(at, layout_.text_state), state))
    return "";
  // The field of 2 bits before the kind has 16 in later builds of 3.14.
  if (layout_.minor >= 14 && (state & 0xfffc) == 0) state >>= 14;
  const std::uint64_t kind = state >> 2 & 7;
  const bool compact = (state >> 5 & 1) != 0, ascii = (state >> 6 & 1) != 0;
  if (!compact || (kind != 1 && kind != 2 && kind != 4) || (ascii && kind != 1)) return "";
  length = std::min(length, kMaxTextCharacters);
  std::string raw(length * kind, '\0');
  const int data = ascii ? layout_.text_ascii : layout_.text_other;
  if (!raw.empty() && !memory_.Read(Plus(at, data), raw.data(), raw.size())) return "";
  return Utf8Of(raw, static_cast<int>(kind));
}

namespace {

const char* WordOf(StackProof proof) {
  switch (proof) {
    case StackProof::kProven:
      return "proven";
    case StackProof::kStable:
      return "stable";
    case StackProof::kRunning:
      break;
  }
  return "RUNNING";
}

// The name comes last, because it may contain spaces. A line break in it would begin another line.
std::string OneLine(std::string text) {
  for (char& byte : text) {
    if (static_cast<unsigned char>(byte) < 0x20) byte = '?';
  }
  return text;
}

// Room for the headings of all threads behind the last frame.
constexpr std::size_t kRoomForHeadings = std::size_t{512} << 10;

std::string HeadingOf(const PythonThread& thread, const ThreadFacts& facts) {
  std::array<char, 128> ids{};
  std::snprintf(ids.data(), ids.size(), "Thread 0x%llx tid %llu %s%s state %c",
                static_cast<unsigned long long>(thread.id),
                static_cast<unsigned long long>(thread.tid), WordOf(thread.proof),
                thread.holds_gil ? " HOLDS-GIL" : "", facts.state);
  return std::string(ids.data()) + " wchan " + facts.wchan + " syscall " + facts.syscall + " ran " +
         facts.ran + " comm " + OneLine(facts.name) + "\n";
}

}  // namespace

std::string StacksText(const PythonStacks& stacks, int minor, std::int64_t looked_at_ns,
                       const std::function<ThreadFacts(std::uint64_t tid)>& facts) {
  std::string text = "# python 3." + std::to_string(minor) + " threads " +
                     std::to_string(stacks.threads.size()) + " gil_locked " +
                     (stacks.gil_is_held ? "1" : "0") + " at " + std::to_string(looked_at_ns) +
                     (stacks.cut ? " cut" : "") + "\n";
  for (const PythonThread& thread : stacks.threads) {
    text += HeadingOf(thread, facts(thread.tid));
    for (const PythonFrame& frame : thread.frames) {
      if (text.size() > kMaxStacksText - kRoomForHeadings) break;
      text += "  File \"" + frame.file + "\", line " + std::to_string(frame.line) + " in " +
              frame.name + "\n";
    }
  }
  return text;
}

}  // namespace strobe::agent
