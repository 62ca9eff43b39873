#include "sidecar/source/agent/engine_file.h"

#include <unistd.h>

#include "agent/wire/engine_file.h"
#include "collector/store/beneath.h"

namespace strobe::source {
namespace {

// Beyond these, a value is forged.
constexpr std::uint64_t kMaxEngineNs = std::uint64_t{1} << 60;
constexpr std::uint64_t kMaxRequests = std::uint64_t{1} << 32;

MonoTime MomentOf(std::uint64_t ns) { return MonoTime{Nanos{static_cast<std::int64_t>(ns)}}; }

std::optional<MonoTime> MomentOrNone(std::uint64_t ns) {
  return ns == 0 || ns > kMaxEngineNs ? std::nullopt : std::optional(MomentOf(ns));
}

bool IsBelievable(const wire::EngineMark& mark) {
  return mark.number >= 0 && mark.began_ns != 0 && mark.began_ns <= kMaxEngineNs &&
         mark.ended_ns <= kMaxEngineNs && (mark.ended_ns == 0 || mark.ended_ns >= mark.began_ns) &&
         mark.requests <= kMaxRequests && mark.tokens <= kMaxRequests;
}

}  // namespace

void AddEngineOf(const FileDescriptor& agent_directory, const Announcement& process,
                 std::vector<session::EngineReading>& told) {
  if (process.engine_file.empty() || told.size() >= kMaxEngines) return;
  const absl::StatusOr<FileDescriptor> opened =
      storage::OpenFileIn(agent_directory, process.engine_file);
  wire::EngineFile file{};
  if (!opened.ok() || pread(opened->get(), &file, sizeof file, 0) != ssize_t{sizeof file} ||
      file.magic != wire::kEngineMagic)
    return;
  session::EngineReading& engine = told.emplace_back();
  engine.process = process.label();
  wire::ForEachIteration(file, [&](const wire::EngineMark& mark) {
    if (!IsBelievable(mark)) return;
    engine.iterations.push_back({.number = mark.number,
                                 .begin = MomentOf(mark.began_ns),
                                 .end = MomentOrNone(mark.ended_ns),
                                 .requests = mark.requests,
                                 .tokens = mark.tokens});
  });
  if (file.running > kMaxRequests || file.waiting > kMaxRequests) return;
  engine.running = file.running;
  engine.waiting = file.waiting;
  engine.busy_since = MomentOrNone(file.busy_ns);
  engine.worked = MomentOrNone(file.worked_ns);
}

}  // namespace strobe::source
