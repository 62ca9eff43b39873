#include "agent/evidence/stacks_text.h"

#include <array>
#include <cstdio>

namespace strobe::agent {
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
  return std::string(ids.data()) + " wchan " + facts.wchan + " syscall " + facts.syscall +
         " comm " + OneLine(facts.name) + "\n";
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
