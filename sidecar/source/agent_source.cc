#include "sidecar/source/agent_source.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <system_error>

#include "collector/base/strings.h"
#include "collector/xplane/builder.h"
#include "collector/xplane/names.h"
#include "collector/xplane/trace_me_text.h"
#include "sidecar/wire/ring_file.h"
#include "sidecar/wire/ring_reader.h"
#include "sidecar/wire/ticks.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;
using session::Recording;
using std::chrono::milliseconds;
using wire::RingFile;

constexpr Nanos kDrainEvery = milliseconds(2);
constexpr Nanos kLookEvery = milliseconds(50);  // For programs that have just started.

std::vector<std::string> RingFiles(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().native().ends_with(".rings")) files.push_back(it->path().native());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The two clocks at one moment.
struct Moment {
  std::uint64_t ticks = 0, monotonic_ns = 0;
};

Moment Now(wire::TickKind kind) {
  // The tightest of a few, so that an interrupt in between does not count.
  Moment best;
  std::uint64_t width = ~0ull;
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t before = wire::Ticks(kind);
    const std::uint64_t monotonic = wire::MonotonicNs();
    const std::uint64_t after = wire::Ticks(kind);
    if (after - before >= width) continue;
    width = after - before;
    best = {before + width / 2, monotonic};
  }
  return best;
}

struct Event {
  std::uint64_t begin = 0, end = 0;  // Ticks.
  std::size_t text = 0;              // Where in the thread's text,
  std::size_t size = 0;              // and how long.
};

struct Thread {
  std::string name;
  std::vector<Event> events;
  std::string text;
};

// One process that records.
class Program {
 public:
  Program(RingFile file, bool from_start)
      : file_(std::move(file)),
        kind_(file_.header()->tick_kind),
        begin_(Now(kind_)),
        from_start_(from_start) {}

  void SetLevel(std::uint32_t level) {
    file_.header()->control.store(level, std::memory_order_relaxed);
  }
  bool lives() const { return file_.ProgramLives(); }
  std::uint64_t lost() const {
    std::uint64_t lost = over_budget_ + without_ring();
    // What ends after the last drain began before recording stopped, and outside of the window.
    for (const wire::RingReader& reader : readers_) lost += reader.lost();
    return lost;
  }
  std::uint64_t kept() const { return kept_; }

  void Drain(std::uint64_t& budget) {
    const std::uint32_t rings =
        std::min(file_.header()->rings.load(std::memory_order_acquire), file_.most_rings());
    while (readers_.size() < rings) {
      const auto index = static_cast<std::uint32_t>(readers_.size());
      readers_.emplace_back(file_.ring(index), file_.data(index), file_.ring_words());
      if (from_start_) readers_.back().SkipToStart();
    }
    // Rings that are begun while we record are ours from their first record.
    from_start_ = true;
    for (wire::RingReader& reader : readers_) {
      reader.Drain([&](const wire::ScopeRecord& record) {
        const std::uint64_t cost = sizeof(Event) + record.text.size();
        if (cost > budget) {
          ++over_budget_;
          return;
        }
        budget -= cost;
        Thread& thread = threads_[reader.thread().id];
        if (thread.events.empty()) thread.name = reader.thread().name.data();
        thread.events.push_back({record.begin, record.end, thread.text.size(), record.text.size()});
        thread.text.append(record.text);
        ++kept_;
      });
    }
  }

  // Adds a line per thread to the plane: what lies within [start, stop), which begins at
  // `start_ns`. `wall_offset` is wall clock minus CLOCK_MONOTONIC.
  void Build(std::int64_t start_ns, std::int64_t stop_ns, std::int64_t wall_offset,
             const std::string& prefix, xplane::PlaneBuilder& plane) {
    const Moment end = Now(kind_);
    const double ns_per_tick = end.ticks == begin_.ticks
                                   ? 1
                                   : static_cast<double>(end.monotonic_ns - begin_.monotonic_ns) /
                                         static_cast<double>(end.ticks - begin_.ticks);
    const auto wall_ps = [&](std::uint64_t ticks) {
      const auto since = static_cast<std::int64_t>(ticks - begin_.ticks);
      return static_cast<std::int64_t>(static_cast<double>(since) * ns_per_tick * 1000) +
             (static_cast<std::int64_t>(begin_.monotonic_ns) + wall_offset - start_ns) * 1000;
    };
    const std::int64_t window_ps = (stop_ns - start_ns) * 1000;
    for (auto& [id, thread] : threads_) {
      std::sort(thread.events.begin(), thread.events.end(), [](const Event& a, const Event& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
      });
      plane.BeginLine(id, StrCat(prefix, thread.name, "/", id), start_ns);
      for (const Event& event : thread.events) {
        const std::int64_t begin = wall_ps(event.begin), stop = wall_ps(event.end);
        if (begin < 0 || stop > window_ps || stop < begin) continue;
        const auto text = std::string_view(thread.text).substr(event.text, event.size);
        const xplane::TraceMeText parsed = xplane::ParseTraceMe(text);
        plane.AddEvent(plane.EventId(parsed.name), begin, stop - begin);
        for (const auto& [key, value] : parsed.args)
          plane.AddEventStat(plane.StatId(key), xplane::TypedValue(value));
      }
    }
  }

  std::string Label() const {
    std::array<char, wire::kProgramBytes + 1> name{};
    std::copy_n(file_.header()->program, wire::kProgramBytes, name.begin());
    return StrCat(name.data(), " ", file_.header()->pid, " ");
  }

 private:
  std::uint64_t without_ring() const {
    return file_.header()->without_ring.load(std::memory_order_relaxed) - without_ring_before_;
  }

  RingFile file_;
  const wire::TickKind kind_;
  const Moment begin_;
  bool from_start_;
  std::vector<wire::RingReader> readers_;
  std::map<std::uint32_t, Thread> threads_;
  std::uint64_t kept_ = 0, over_budget_ = 0;
  const std::uint64_t without_ring_before_ =
      file_.header()->without_ring.load(std::memory_order_relaxed);
};

}  // namespace

AgentSource::AgentSource(const Clock& clock, AgentOptions options)
    : clock_(clock), options_(std::move(options)) {
  // A sidecar before us may have died in the middle of a capture.
  for (const std::string& path : RingFiles(options_.directory)) {
    if (const RingFile file = RingFile::Open(path)) file.header()->control.store(0);
  }
}

std::vector<v1::Source> AgentSource::Probe(Nanos) {
  std::size_t living = 0;
  for (const std::string& path : RingFiles(options_.directory)) {
    const RingFile file = RingFile::Open(path);
    if (file && file.ProgramLives()) ++living;
  }
  v1::Source source;
  source.set_kind(v1::SOURCE_AGENT);
  source.set_address(options_.directory);
  source.set_ready(living > 0);
  if (living == 0) source.set_detail("no program with the agent runs");
  return {source};
}

// Programs see the control word with their next scope.
Nanos AgentSource::lead() const { return milliseconds(20); }

Recording AgentSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                              const Cancellation& terminate,
                              const std::function<void()>& collecting) {
  std::map<std::string, std::unique_ptr<Program>> programs;
  const auto look = [&](bool first) {
    for (const std::string& path : RingFiles(options_.directory)) {
      if (programs.contains(path)) continue;
      RingFile file = RingFile::Open(path);
      if (!file) continue;
      if (!file.ProgramLives()) {
        // Nobody will write to it any more, and nobody asked for what it holds.
        if (first) unlink(path.c_str());
        continue;
      }
      auto program = std::make_unique<Program>(std::move(file), !first);
      program->SetLevel(plan.tracers().host());
      programs.emplace(path, std::move(program));
    }
  };
  std::uint64_t budget = options_.most_bytes;
  std::uint64_t kept = 0, lost = 0;
  look(true);
  const std::int64_t start_ns = plan.instant_ns() - plan.guard_ns();
  std::int64_t stop_ns = plan.instant_ns() + plan.duration_ns() + plan.guard_ns();
  const auto now_ns = [&] { return ToUnixNanos(clock_.WallNow()); };
  MonoTime looked = clock_.MonoNow();
  while (!cancel.cancelled() && now_ns() < stop_ns) {
    for (const auto& [path, program] : programs) program->Drain(budget);
    if (clock_.MonoNow() - looked > kLookEvery) {
      look(false);
      looked = clock_.MonoNow();
    }
    if (terminate.cancelled()) stop_ns = std::min(stop_ns, now_ns());
    cancel.WaitFor(std::clamp<Nanos>(Nanos{stop_ns - now_ns()}, Nanos{0}, kDrainEvery));
  }
  for (const auto& [path, program] : programs) program->SetLevel(0);
  collecting();
  if (cancel.cancelled()) return {.outcome = Outcome::kCancelled};

  Recording recording{.outcome = Outcome::kOk};
  if (programs.empty()) {
    recording.outcome = Outcome::kNoSource;
    recording.message = StrCat("no program with the agent runs; ", options_.directory,
                               " has no rings of a living one");
    return recording;
  }
  const std::int64_t wall_offset = now_ns() - static_cast<std::int64_t>(wire::MonotonicNs());
  xplane::PlaneBuilder plane(xplane::kHostPlane);
  std::vector<std::string> died;
  for (const auto& [path, program] : programs) {
    program->Drain(budget);
    program->Build(start_ns, stop_ns, wall_offset, programs.size() > 1 ? program->Label() : "",
                   plane);
    kept += program->kept();
    lost += program->lost();
    if (!program->lives()) died.push_back(program->Label());
  }
  recording.xspace = plane.Encode();
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart, static_cast<std::uint64_t>(start_ns));
  environment.AddPlaneStat(xplane::kProfileStop, static_cast<std::uint64_t>(stop_ns));
  recording.xspace += environment.Encode();
  if (lost > 0) {
    recording.outcome = Outcome::kEventsDropped;
    recording.message =
        StrCat(lost, " of ", kept + lost,
               " annotations are missing: the programs made them faster than they could be read; "
               "lower tracers.host, or give the programs a larger STROBE_RING_KB");
  }
  if (!died.empty()) {
    recording.outcome = Outcome::kWorkerLost;
    recording.message = StrCat("ended while it was recorded: ", Join(died, ", "),
                               "; the trace has what it had written until then");
  }
  return recording;
}

}  // namespace strobe
