#include "collector/trace/report/run_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "collector/trace/report/robust.h"
#include "common/base/enum_names.h"
#include "common/text/safe_text.h"

namespace strobe::report {
namespace {

constexpr std::size_t kMaxComparedOps = 20'000, kMaxSteps = 10'000, kMaxSummaryText = 256;
constexpr double kSecondNs = 1e9;
// At most one incomplete step is at each end of a recording.
constexpr double kEdgeSteps = 2;
// The 99th percentile of a normal distribution is this many standard deviations above its median.
constexpr double kDeviationsTo99 = 2.326;

std::size_t At(StepPart part) { return static_cast<std::size_t>(part); }

// Digests are not trusted: no duration is negative or longer than a century.
double Positive(std::int64_t ns) {
  return static_cast<double>(std::clamp<std::int64_t>(ns, 0, std::int64_t{1} << 61));
}

double LengthOf(std::int64_t begin_ns, std::int64_t end_ns) {
  return std::max(0.0, static_cast<double>(end_ns) - static_cast<double>(begin_ns));
}

bool IsValid(const digest::Digest& digest, const digest::Step& step) {
  return step.loop < digest.names.size() && step.begin_ns < step.end_ns;
}

// How long a worker's devices worked.
double Busy(const digest::Breakdown& time) {
  return std::max(0.0, Positive(time.span_ns) - Positive(time.idle_ns));
}

// What the workers tell of one step.
struct StepSum {
  std::vector<double> durations{};
  std::array<double, kStepParts> parts{};
  std::array<std::size_t, kStepParts> tellers{};
};

// The worker's steps that count: the first of each number and, unless there are none, only those
// that another step follows.
std::vector<const digest::Step*> CountedSteps(const digest::Digest& digest, std::string_view loop) {
  std::vector<const digest::Step*> steps, followed;
  std::set<std::int64_t> seen;
  for (const digest::Step& step : digest.steps) {
    if (steps.size() == kMaxSteps) break;
    if (!IsValid(digest, step) || digest.names[step.loop] != loop) continue;
    if (!seen.insert(step.number).second) continue;
    steps.push_back(&step);
    if (step.followed) followed.push_back(&step);
  }
  return followed.empty() ? steps : followed;
}

void AddCountedSteps(const digest::Digest& digest, const std::vector<const digest::Step*>& steps,
                     std::map<std::int64_t, StepSum>& sums) {
  const PartsPresent known = KnownParts(digest.knows);
  for (const digest::Step* step : steps) {
    StepSum& sum = sums[step->number];
    sum.durations.push_back(LengthOf(step->begin_ns, step->end_ns));
    const PartTimes parts = PartsOf(step->time, step->host);
    for (std::size_t i = 0; i < kStepParts; ++i) {
      if (!known[i]) continue;
      sum.parts[i] += Positive(parts[i]);
      ++sum.tellers[i];
    }
  }
}

// How sums over the whole recording become those of a typical step.
struct Scale {
  double factor = 0;
  double edges = 0, outside = 0;  // As SummaryWorker.
};

// The recording begins and ends within steps. The time in which the devices worked tells how much
// of its work belongs to complete steps.
Scale ScaleOf(const digest::Digest& digest, std::string_view loop) {
  const double recorded = LengthOf(digest.begin_ns, digest.end_ns);
  double steps = 0, inside = 0, length = 0;
  for (const digest::Step& step : digest.steps) {
    if (loop.empty() || !IsValid(digest, step) || digest.names[step.loop] != loop) continue;
    ++steps;
    inside += Busy(step.time);
    length += LengthOf(step.begin_ns, step.end_ns);
  }
  if (steps == 0) return {.factor = recorded > 0 ? kSecondNs / recorded : 0};
  const bool by_work = digest.knows.device && Busy(digest.time) > 0;
  const double all = by_work ? Busy(digest.time) : recorded;
  const double share = all > 0 ? std::min(1.0, (by_work ? inside : length) / all) : 1;
  // Steps that the digest leaves out were complete, so that their work does not count as outside.
  const double outside =
      digest.cuts.steps > 0 ? std::min(1 - share, kEdgeSteps / steps) : 1 - share;
  return {.factor = share / steps,
          .edges = outside > 0 ? std::max(outside, kEdgeSteps / (steps + kEdgeSteps)) : 0,
          .outside = outside * all / steps};
}

using SummaryOpKey = std::pair<digest::WorkKind, std::string>;

class Summarizer {
 public:
  explicit Summarizer(std::span<const digest::Digest> digests)
      : digests_(digests), loop_(MainLoop(digests)) {}

  RunSummary Make() {
    summary_.loop = CutUtf8(loop_, kMaxSummaryText);
    for (const digest::Digest& digest : digests_) {
      summary_.device |= digest.knows.device;
      summary_.host_device |= digest.knows.host_device;
    }
    std::array<std::size_t, kStepParts> tellers{};
    for (const digest::Digest& digest : digests_) {
      AddWorker(digest);
      AddRecording(digest, tellers);
    }
    for (std::size_t i = 0; i < kStepParts; ++i) {
      summary_.parts_known[i] = tellers[i] > 0;
      if (tellers[i] > 0) summary_.parts_in_second[i] /= static_cast<double>(tellers[i]);
    }
    JoinSteps();
    for (auto& [key, workers] : ops_)
      summary_.ops.push_back(
          {.kind = key.first, .name = key.second, .workers = std::move(workers)});
    return std::move(summary_);
  }

 private:
  void AddWorker(const digest::Digest& digest) {
    const std::vector<const digest::Step*> steps = CountedSteps(digest, loop_);
    const Scale scale = ScaleOf(digest, loop_);
    summary_.workers.push_back({.name = CutUtf8(digest.worker, kMaxSummaryText),
                                .rank = digest.rank,
                                .steps = steps.size(),
                                .edges = scale.edges,
                                .outside = scale.outside});
    summary_.with_steps += !steps.empty();
    AddCountedSteps(digest, steps, steps_);
    AddOps(digest, scale.factor, std::max<double>(1, static_cast<double>(steps.size())));
  }

  void AddRecording(const digest::Digest& digest, std::array<std::size_t, kStepParts>& tellers) {
    const double recorded = LengthOf(digest.begin_ns, digest.end_ns);
    const PartsPresent known = KnownParts(digest.knows);
    const PartTimes parts = PartsOf(digest.time, digest.host_time);
    for (std::size_t i = 0; i < kStepParts; ++i) {
      if (!known[i] || recorded <= 0) continue;
      summary_.parts_in_second[i] += Positive(parts[i]) / recorded * kSecondNs;
      ++tellers[i];
    }
  }

  // Devices hide what the host does, and scopes contain operations.
  bool Compares(digest::WorkKind kind) const {
    if (kind == digest::WorkKind::kScope) return false;
    return !summary_.device || kind == digest::WorkKind::kCompute ||
           kind == digest::WorkKind::kCommunication || kind == digest::WorkKind::kCopy;
  }

  void AddOps(const digest::Digest& digest, double factor, double steps) {
    const auto worker = static_cast<std::uint32_t>(summary_.workers.size() - 1);
    double smallest = 0;
    bool any = false;
    for (const digest::Op& op : digest.ops) {
      if (op.name >= digest.names.size()) continue;
      const double self = Positive(op.self_ns) * factor;
      smallest = any ? std::min(smallest, self) : self;
      any = true;
      if (!Compares(op.kind)) continue;
      SummaryOpKey key(op.kind, CutUtf8(digest.names[op.name], kMaxSummaryText));
      auto found = ops_.find(key);
      if (found == ops_.end()) {
        if (ops_.size() == kMaxComparedOps) {
          ++summary_.ops_left_out;
          continue;
        }
        found = ops_.try_emplace(std::move(key)).first;
      }
      const double calls = static_cast<double>(op.count) * factor;
      const double spread = op.knows_quantiles()
                                ? std::max(0.0, Positive(op.p99_ns) - Positive(op.p50_ns))
                                : std::numeric_limits<double>::infinity();
      Append({.worker = worker,
              .self = self,
              .calls = calls,
              .deviation = spread / kDeviationsTo99 * calls / std::sqrt(steps)},
             found->second);
    }
    if (digest.cuts.ops > 0) summary_.workers.back().unlisted = smallest;
  }

  // A digest names each operation once, unless it is hostile or its names were cut.
  static void Append(const WorkerOp& op, std::vector<WorkerOp>& workers) {
    if (workers.empty() || workers.back().worker != op.worker) {
      workers.push_back(op);
      return;
    }
    workers.back().self += op.self;
    workers.back().calls += op.calls;
    workers.back().deviation += op.deviation;
  }

  void JoinSteps() {
    const std::size_t enough = (summary_.with_steps + 1) / 2;
    std::array<std::size_t, kStepParts> most{};
    for (const auto& [number, sum] : steps_) {
      for (std::size_t i = 0; i < kStepParts; ++i) most[i] = std::max(most[i], sum.tellers[i]);
    }
    for (auto& [number, sum] : steps_) {
      if (sum.durations.size() < enough || summary_.step_ns.size() == kMaxSteps) continue;
      summary_.step_ns.push_back(Median(sum.durations));
      for (std::size_t i = 0; i < kStepParts; ++i) {
        if (sum.tellers[i] > 0 && sum.tellers[i] >= (most[i] + 1) / 2)
          summary_.parts_ns[i].push_back(sum.parts[i] / static_cast<double>(sum.tellers[i]));
      }
    }
  }

  const std::span<const digest::Digest> digests_;
  const std::string_view loop_;
  RunSummary summary_{};
  std::map<std::int64_t, StepSum> steps_{};
  std::map<SummaryOpKey, std::vector<WorkerOp>> ops_{};
};

}  // namespace

std::string_view PartName(StepPart part) {
  static constexpr EnumNames<StepPart, 8> kNames(
      {{StepPart::kCompute, "compute"},
       {StepPart::kExposedCommunication, "exposed communication"},
       {StepPart::kExposedCopies, "exposed copies"},
       {StepPart::kIdle, "idle"},
       {StepPart::kInput, "input"},
       {StepPart::kGarbageCollection, "garbage collection"},
       {StepPart::kHostBound, "host-bound"},
       {StepPart::kCommunication, "communication"}});
  return kNames.Of(part);
}

PartTimes PartsOf(const digest::Breakdown& time, const digest::HostTime& host) {
  return {time.compute_ns,    time.exposed_communication_ns, time.exposed_copies_ns,
          time.idle_ns,       host.input_stall_ns,           host.garbage_collection_ns,
          host.host_bound_ns, time.communication_ns};
}

PartsPresent KnownParts(const digest::Knows& knows) {
  PartsPresent known{};
  for (const StepPart part : {StepPart::kCompute, StepPart::kExposedCommunication,
                              StepPart::kExposedCopies, StepPart::kIdle, StepPart::kCommunication})
    known[At(part)] = knows.device;
  known[At(StepPart::kInput)] = knows.input;
  known[At(StepPart::kGarbageCollection)] = knows.garbage_collection;
  known[At(StepPart::kHostBound)] = knows.launches;
  return known;
}

std::string_view MainLoop(std::span<const digest::Digest> digests) {
  std::map<std::string_view, double> taken;
  for (const digest::Digest& digest : digests) {
    for (const digest::Step& step : digest.steps) {
      if (IsValid(digest, step))
        taken[digest.names[step.loop]] += LengthOf(step.begin_ns, step.end_ns);
    }
  }
  const auto longest = std::max_element(
      taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return longest == taken.end() ? std::string_view() : longest->first;
}

RunSummary SummarizeRun(std::span<const digest::Digest> digests) {
  return Summarizer(digests).Make();
}

}  // namespace strobe::report
