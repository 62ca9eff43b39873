#include "collector/stall/stack_dump.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "collector/stall/text_pieces.h"
#include "common/base/strings.h"

namespace strobe::stall {
namespace {

constexpr std::string_view kAgentsBegin = "# python ";

// Calls that return when others have done their part.
constexpr std::array kWaitingCalls =
    std::to_array<std::string_view>({"all_reduce", "barrier", "monitored_barrier", "reduce", "send",
                                     "recv", "wait", "gather", "scatter", "batch_isend_irecv"});
constexpr std::array kWaitingPrefixes =
    std::to_array<std::string_view>({"all_gather", "reduce_scatter", "broadcast", "all_to_all",
                                     "all_reduce_", "gather_object", "scatter_object"});
constexpr std::array kRendezvousCalls = std::to_array<std::string_view>(
    {"new_group", "_new_group_with_tag", "_store_based_barrier", "init_process_group", "rendezvous",
     "_new_process_group_helper", "split_group"});

std::string_view LastPart(std::string_view name) { return name.substr(name.rfind('.') + 1); }

bool IsWaitingCall(std::string_view call) {
  return std::find(kWaitingCalls.begin(), kWaitingCalls.end(), call) != kWaitingCalls.end() ||
         std::any_of(kWaitingPrefixes.begin(), kWaitingPrefixes.end(),
                     [&](std::string_view prefix) { return call.starts_with(prefix); });
}

bool IsRendezvous(std::string_view call) {
  return std::find(kRendezvousCalls.begin(), kRendezvousCalls.end(), call) !=
         kRendezvousCalls.end();
}

template <typename Number>
bool TakeNumber(std::string_view word, Number& number) {
  const bool hex = word.starts_with("0x") || word.starts_with("0X");
  if (hex) word.remove_prefix(2);
  return std::from_chars(word.data(), word.data() + word.size(), number, hex ? 16 : 10).ec ==
         std::errc();
}

// The first line of the agent's: "# python 3.11 threads 4 gil_locked 0 at 1795797239924927443".
std::int64_t MomentOf(std::string_view line) {
  constexpr std::string_view kAt = " at ";
  std::int64_t looked_at_ns = 0;
  const std::size_t at = line.find(kAt);
  if (at != std::string_view::npos) TakeNumber(line.substr(at + kAt.size()), looked_at_ns);
  return std::max<std::int64_t>(looked_at_ns, 0);
}

// The agent's: tid 25764 stable HOLDS-GIL state S wchan futex_do_wait syscall 202 comm python
void AddFacts(std::string_view line, StackThread& thread) {
  while (!line.empty()) {
    const std::string_view word = TakeWord(line);
    if (word == "tid")
      TakeNumber(TakeWord(line), thread.tid);
    else if (word == "state")
      thread.state = TakeWord(line);
    else if (word == "wchan")
      thread.wchan = TakeWord(line);
    else if (word == "syscall")
      TakeNumber(TakeWord(line), thread.syscall);
    else if (word == "ran")
      TakeNumber(TakeWord(line), thread.ran_ns);
    else if (word == "HOLDS-GIL")
      thread.holds_gil = true;
    else if (word == "RUNNING")
      thread.running = true;
    else if (word == "comm")
      return void(thread.name = line.substr(std::min<std::size_t>(1, line.size())));
  }
}

// The three headings of a thread:
//   Thread 0x7fee18ff96c0 tid 25764 stable state S ...
//   Current thread 0x00007fee18ff96c0 [loader] (most recent call first):
//   Thread 25764 (active+gil): "MainThread"
StackThread ThreadOfHeading(std::string_view line) {
  StackThread thread;
  line.remove_prefix(line.find("hread ") + 6);
  const std::string_view id = TakeWord(line);
  TakeNumber(id, thread.id);
  if (Contains(line, " tid ")) {
    AddFacts(line, thread);
  } else if (Contains(line, "most recent call first")) {
    const std::size_t open = line.find('['), close = line.find(']');
    if (open < close && close != std::string_view::npos)
      thread.name = line.substr(open + 1, close - open - 1);
  } else {
    thread.tid = thread.id;
    const std::string_view doing = TakeWord(line);
    thread.holds_gil = Contains(doing, "gil");
    if (Contains(doing, "active")) thread.state = "R";
    const std::size_t quote = line.find('"');
    if (quote != std::string_view::npos)
      thread.name = line.substr(quote + 1, line.rfind('"') - quote - 1);
  }
  return thread;
}

// `  File "/app/job.py", line 51 in train.<locals>.optimizer`
bool FrameOfFile(std::string_view line, StackFrame& frame) {
  constexpr std::string_view kBegin = "  File \"", kMiddle = "\", line ", kEnd = " in ";
  if (!line.starts_with(kBegin)) return false;
  line.remove_prefix(kBegin.size());
  const std::size_t middle = line.rfind(kMiddle);
  if (middle == std::string_view::npos) return false;
  std::string_view rest = line.substr(middle + kMiddle.size());
  const std::size_t end = rest.find(kEnd);
  if (end == std::string_view::npos || !TakeNumber(rest.substr(0, end), frame.line)) return false;
  frame.file = line.substr(0, middle);
  frame.name = rest.substr(end + kEnd.size());
  return true;
}

// `    optimizer (/app/job.py:51)`, of py-spy.
bool FrameOfPySpy(std::string_view line, StackFrame& frame) {
  if (!line.starts_with("    ") || !line.ends_with(')')) return false;
  line.remove_prefix(4);
  line.remove_suffix(1);
  const std::size_t open = line.rfind(" ("), colon = line.rfind(':');
  if (open == std::string_view::npos || colon == std::string_view::npos || colon < open + 2)
    return false;
  if (!TakeNumber(line.substr(colon + 1), frame.line)) return false;
  frame.name = line.substr(0, open);
  frame.file = line.substr(open + 2, colon - open - 2);
  return true;
}

// Logs have lines such as "Thread pool started".
bool IsHeading(std::string_view line) {
  for (const std::string_view begin : {"Thread ", "Current thread "}) {
    if (line.starts_with(begin))
      return line.size() > begin.size() && line[begin.size()] >= '0' && line[begin.size()] <= '9';
  }
  return false;
}

// The interpreter lists its newest thread first, and with it the agent and faulthandler.
std::size_t MainOf(const std::vector<StackThread>& threads) {
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (threads[i].name == "MainThread") return i;
  }
  return threads.size() - 1;
}

// py-spy leaves out the folder in which Python found a module.
bool IsIn(const StackFrame& frame, std::string_view folder) {
  return frame.file.starts_with(folder) || Contains(frame.file, StrCat("/", folder));
}

bool IsOfLibrary(const StackFrame& frame) {
  return Contains(frame.file, "/lib/python") || Contains(frame.file, "-packages/") ||
         IsIn(frame, "torch/") || frame.file.starts_with('<');
}

}  // namespace

const StackThread* StackDump::gil_holder() const {
  const auto holder = std::find_if(threads.begin(), threads.end(),
                                   [](const StackThread& thread) { return thread.holds_gil; });
  return holder == threads.end() ? nullptr : &*holder;
}

bool LooksLikeStacks(std::string_view text) {
  std::string_view begin = text.substr(0, 4096);
  if (begin.starts_with(kAgentsBegin)) return true;
  while (!begin.empty()) {
    if (IsHeading(TakeLine(begin))) return true;
  }
  return false;
}

absl::StatusOr<StackDump> ReadStacks(std::string_view text) {
  if (text.size() > kMaxStackBytes)
    return absl::DataLossError(StrCat("the stacks have more than ", kMaxStackBytes, " bytes"));
  StackDump dump;
  std::size_t frames = 0;
  if (text.starts_with(kAgentsBegin)) dump.looked_at_ns = MomentOf(TakeLine(text));
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    if (IsHeading(line)) {
      if (dump.threads.size() == kMaxThreads)
        return absl::DataLossError(StrCat("there are more than ", kMaxThreads, " threads"));
      dump.threads.push_back(ThreadOfHeading(line));
      continue;
    }
    StackFrame frame;
    if (dump.threads.empty() || (!FrameOfFile(line, frame) && !FrameOfPySpy(line, frame))) continue;
    if (++frames > kMaxFrames)
      return absl::DataLossError(StrCat("there are more than ", kMaxFrames, " frames"));
    dump.threads.back().frames.push_back(std::move(frame));
  }
  if (dump.threads.empty())
    return absl::DataLossError("there is no thread in the stacks, or they are of another program");
  dump.main = MainOf(dump.threads);
  return dump;
}

MainThread MainThreadOf(const StackDump& stacks) {
  MainThread result;
  const StackThread* thread = stacks.main_thread();
  if (thread == nullptr || thread->frames.empty()) return result;
  const std::vector<StackFrame>& frames = thread->frames;
  result.doing = MainDoing::kHost;
  // The call is among the innermost frames: PyTorch wraps it only once or twice.
  for (std::size_t i = 0; i < std::min<std::size_t>(frames.size(), 4); ++i) {
    if (!IsIn(frames[i], "torch/distributed/")) continue;
    const std::string_view call = LastPart(frames[i].name);
    if (!IsWaitingCall(call) && !IsRendezvous(call)) continue;
    result.doing = IsRendezvous(call) ? MainDoing::kRendezvous : MainDoing::kCollective;
    result.call = call;
    break;
  }
  return result;
}

const StackFrame& OwnFrame(const StackThread& thread) {
  const auto own = std::find_if_not(thread.frames.begin(), thread.frames.end(), IsOfLibrary);
  return own == thread.frames.end() ? thread.frames.front() : *own;
}

std::string FrameText(const StackFrame& frame) {
  return StrCat(std::string_view(frame.file).substr(frame.file.rfind('/') + 1), ":", frame.line,
                " in ", frame.name);
}

}  // namespace strobe::stall
