#include "viewer/answers/aligned_run.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/trace/digest/classify.h"
#include "collector/trace/digest/collective_rows.h"
#include "collector/trace/digest/device_lines.h"
#include "collector/trace/tally/device_tally.h"
#include "collector/trace/xplane/names.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/parse_tuple.h"
#include "viewer/answers/comparison.h"

namespace strobe::viewer {
namespace {

// Events of a track among which its first collectives are looked for.
constexpr std::uint64_t kMaxLookedAt = 200'000;

// For each worker, the time on the run's clock that is to be the same on all; nullopt: it has none.
struct Anchors {
  std::vector<std::optional<std::int64_t>> at_ps{};
  std::string text{};  // What lies there.
};

// The first step of the main loop that most workers recorded; null without steps.
const ComparedStep* FirstStep(const ComparedSteps& steps) {
  const ComparedStep* first = nullptr;
  for (const ComparedStep& step : steps.all) {
    if (step.name != steps.main_loop) continue;
    if (first == nullptr || step.parts.size() > first->parts.size()) first = &step;
  }
  return first;
}

Anchors BeginsOf(const ComparedStep& step, std::size_t workers) {
  Anchors anchors{.at_ps = std::vector<std::optional<std::int64_t>>(workers),
                  .text = StrCat("the begin of step ", step.number)};
  for (const StepPart& part : step.parts) anchors.at_ps[part.worker] = part.begin_ps;
  return anchors;
}

// The first call of each name, on the trace's clock.
struct FirstCall {
  std::int64_t begin_ps = 0, end_ps = 0;
};
using FirstCalls = std::map<std::string, FirstCall, std::less<>>;

using IsCollective = std::function<bool(std::string_view name)>;

bool IsCollectiveOnHost(std::string_view name) {
  return digest::ClassifyHostEvent(name) == digest::WorkKind::kCommunication;
}

bool IsCollectiveOnDevice(std::string_view name, bool is_hlo) {
  const digest::WorkClass found = digest::ClassifyDeviceWork(name, "", is_hlo);
  return found.kind == digest::WorkKind::kCommunication && found.phase != digest::WorkClass::kStart;
}

// A name in the collectives' own plane. A send and its receive are calls of two workers.
bool IsCollectiveOfLibrary(std::string_view name) {
  const digest::CollectiveKind kind = digest::CollectiveKindOf(name);
  return kind != digest::CollectiveKind::kSend && kind != digest::CollectiveKind::kReceive;
}

void AddCallsOf(const index::Index& index, const index::Row& row, const IsCollective& is_collective,
                std::int64_t from_ps, FirstCalls& calls) {
  std::unordered_map<std::uint32_t, bool> known;  // By the number of the name.
  for (std::uint32_t i = 0; i < row.tracks; ++i) {
    const index::Track& track = index.tracks()[row.first_track + i];
    const std::uint64_t first = index.FirstFrom(track, from_ps);
    index.ForEachEntry(
        track, first, first + kMaxLookedAt, [&](std::uint64_t, const index::Entry& entry) {
          const auto [is, added] = known.try_emplace(entry.name, false);
          if (added) is->second = is_collective(index.Text(entry.name));
          if (!is->second) return;
          const auto [call, is_new] = calls.try_emplace(std::string(index.Text(entry.name)));
          if (is_new || entry.begin_ps < call->second.begin_ps)
            call->second = {entry.begin_ps, entry.end_ps()};
        });
  }
}

// Calls of its devices; if these made none, those that their library told, or else those of its
// threads.
FirstCalls FirstCallsOf(const Worker& worker, std::int64_t from_ps) {
  const index::Index& index = worker.index();
  FirstCalls on_devices, of_library, on_threads;
  for (const index::Plane& plane : index.planes()) {
    const xplane::Plane outline = tally::OutlineOf(index, plane);
    const bool device = digest::IsDevicePlane(outline.name);
    const bool library = outline.name == xplane::kCollectivesPlane;
    const digest::DeviceLines device_lines(outline);
    const digest::CollectiveLines library_lines(outline);
    const IsCollective on_device = [&device_lines](std::string_view name) {
      return IsCollectiveOnDevice(name, device_lines.is_hlo());
    };
    for (const index::Row& row : index.rows(plane)) {
      const std::string_view name = index.Text(row.name);
      if (row.kind == index::RowKind::kCounter || row.derived != 0) continue;
      if (device) {
        if (device_lines.IsWork(name)) AddCallsOf(index, row, on_device, from_ps, on_devices);
      } else if (library) {
        if (library_lines.Count(name))
          AddCallsOf(index, row, &IsCollectiveOfLibrary, from_ps, of_library);
      } else {
        AddCallsOf(index, row, &IsCollectiveOnHost, from_ps, on_threads);
      }
    }
  }
  if (!on_devices.empty()) return on_devices;
  return of_library.empty() ? on_threads : of_library;
}

absl::StatusOr<Anchors> CollectiveOf(const LoadedRun& run, const ComparedSteps& steps,
                                     const std::function<bool()>& is_gone) {
  std::vector<std::int64_t> from_ps(run.workers.size(), -kMaxTimePs);
  if (const ComparedStep* step = FirstStep(steps)) {
    for (const StepPart& part : step->parts)
      from_ps[part.worker] = AddSaturated(part.begin_ps, -run.workers[part.worker].shift_ps);
  }
  std::vector<FirstCalls> calls;
  struct Makers {
    std::size_t workers = 0;
    std::int64_t begin_ps = 0;  // On the own clock of the first worker that has it.
  };
  std::map<std::string, Makers> makers;
  for (std::size_t i = 0; i < run.workers.size(); ++i) {
    if (is_gone && is_gone()) return absl::CancelledError("nobody waits for the run any more");
    calls.push_back(FirstCallsOf(run.workers[i], from_ps[i]));
    for (const auto& [name, call] : calls.back()) {
      Makers& these = makers[name];
      if (++these.workers == 1) these.begin_ps = call.begin_ps;
    }
  }
  const auto best = std::ranges::max_element(makers, [](const auto& a, const auto& b) {
    return std::pair(a.second.workers, -a.second.begin_ps) <
           std::pair(b.second.workers, -b.second.begin_ps);
  });
  if (best == makers.end()) return absl::NotFoundError("align: the traces tell no collective");
  Anchors anchors{.at_ps = std::vector<std::optional<std::int64_t>>(run.workers.size()),
                  .text = StrCat("the end of the first ", best->first)};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto found = calls[i].find(best->first);
    if (found != calls[i].end())
      anchors.at_ps[i] = AddSaturated(found->second.end_ps, run.workers[i].shift_ps);
  }
  return anchors;
}

// The number of "step:5".
std::optional<std::int64_t> NumberOfStep(std::string_view by) {
  constexpr std::string_view kPrefix = "step:";
  if (!by.starts_with(kPrefix)) return std::nullopt;
  by.remove_prefix(kPrefix.size());
  std::int64_t number = 0;
  return ParseTuple(by, "", number) ? std::optional(number) : std::nullopt;
}

absl::StatusOr<Anchors> AnchorsOf(const LoadedRun& run, const ComparedSteps& steps,
                                  const std::string& by, const std::function<bool()>& is_gone) {
  if (by == "collective") return CollectiveOf(run, steps, is_gone);
  const ComparedStep* step = nullptr;
  if (by == "step") {
    step = FirstStep(steps);
  } else if (const std::optional<std::int64_t> number = NumberOfStep(by)) {
    step = FindStep(steps, *number);
  } else {
    return absl::InvalidArgumentError("align: write step, step:5 or collective");
  }
  if (step == nullptr) return absl::NotFoundError("align: no trace has such a step");
  return BeginsOf(*step, run.workers.size());
}

void Move(Worker& worker, std::int64_t by_ps) {
  worker.shift_ps = std::clamp(AddSaturated(worker.shift_ps, by_ps), -kMaxTimePs, kMaxTimePs);
}

// Moves those without an anchor to where the others begin.
void MoveWorkers(const Anchors& anchors, LoadedRun& run) {
  std::int64_t target = std::numeric_limits<std::int64_t>::max(), begin = target;
  for (const auto& at : anchors.at_ps) target = std::min(target, at.value_or(target));
  for (std::size_t i = 0; i < run.workers.size(); ++i) {
    if (!anchors.at_ps[i]) continue;
    Move(run.workers[i], AddSaturated(target, -*anchors.at_ps[i]));
    begin = std::min(begin, run.workers[i].begin_ps());
  }
  for (std::size_t i = 0; i < run.workers.size(); ++i) {
    Worker& worker = run.workers[i];
    worker.clock_problems.clear();
    if (anchors.at_ps[i] || worker.index().header().events == 0) continue;
    Move(worker, AddSaturated(begin, -worker.begin_ps()));
    run.warnings.push_back(StrCat(worker.name, ": its trace lacks ", anchors.text,
                                  "; it is shown from where the others begin"));
  }
  bool first = true;
  for (const Worker& worker : run.workers) {
    if (worker.index().header().events == 0) continue;
    run.begin_ps = first ? worker.begin_ps() : std::min(run.begin_ps, worker.begin_ps());
    run.end_ps = first ? worker.end_ps() : std::max(run.end_ps, worker.end_ps());
    first = false;
  }
}

ComparedSteps MovedSteps(ComparedSteps steps, const LoadedRun& from, const LoadedRun& to) {
  for (ComparedStep& step : steps.all) {
    for (StepPart& part : step.parts) {
      const std::int64_t by_ps =
          AddSaturated(to.workers[part.worker].shift_ps, -from.workers[part.worker].shift_ps);
      part.begin_ps = AddSaturated(part.begin_ps, by_ps);
      part.end_ps = AddSaturated(part.end_ps, by_ps);
    }
    step.begin_ps = std::ranges::min(step.parts, {}, &StepPart::begin_ps).begin_ps;
    step.end_ps = std::ranges::max(step.parts, {}, &StepPart::end_ps).end_ps;
  }
  return steps;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const LoadedRun>> AlignedRun(const LoadedRun& run,
                                                            const std::string& by,
                                                            const std::function<bool()>& is_gone) {
  KeptAlignments& kept = *run.alignments;
  {
    MutexLock lock(&kept.mutex);
    const auto found = kept.runs.find(by);
    if (found != kept.runs.end()) return found->second;
  }
  ASSIGN_OR_RETURN(ComparedSteps steps, StepsOf(run, is_gone));
  ASSIGN_OR_RETURN(Anchors anchors, AnchorsOf(run, steps, by, is_gone));
  auto aligned = std::make_shared<LoadedRun>(LoadedRun{.name = run.name,
                                                       .version = run.version,
                                                       .workers = run.workers,
                                                       .left_out = run.left_out,
                                                       .rows = run.rows,
                                                       .events = run.events,
                                                       .warnings = run.warnings,
                                                       .aligned_by = anchors.text,
                                                       .numbers = run.numbers});
  MoveWorkers(anchors, *aligned);
  {
    MutexLock lock(&aligned->steps->mutex);
    aligned->steps->steps = MovedSteps(std::move(steps), run, *aligned);
  }
  MutexLock lock(&kept.mutex);
  if (kept.runs.size() >= KeptAlignments::kMaxKept) kept.runs.clear();
  kept.runs[by] = aligned;
  return aligned;
}

}  // namespace strobe::viewer
