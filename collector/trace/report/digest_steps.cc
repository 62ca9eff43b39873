#include "collector/trace/report/digest_steps.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "collector/trace/report/robust.h"
#include "common/base/saturated.h"
#include "common/text/safe_text.h"

namespace strobe::report {
namespace {

// Longer names are cut, because digests are not trusted.
constexpr std::size_t kMaxWorkerBytes = 256;

std::int64_t Clamped(std::int64_t time_ns) { return std::clamp(time_ns, -kFarNs, kFarNs); }

// Durations are clamped to less than times, so that six of them can be added.
std::int64_t ClampedDuration(std::int64_t duration_ns) {
  return std::clamp<std::int64_t>(duration_ns, 0, kFarNs / 8);
}

// The part of a step during which at least one call ran. Calls are sorted by begin.
std::int64_t TimeInCalls(const digest::Digest& digest, const digest::Step& step) {
  auto call = std::partition_point(
      digest.collectives.begin(), digest.collectives.end(),
      [&](const digest::Collective& earlier) { return earlier.begin_ns < step.begin_ns; });
  // The call before may reach into the step.
  if (call != digest.collectives.begin()) --call;
  std::int64_t time = 0, covered = step.begin_ns;
  for (; call != digest.collectives.end() && call->begin_ns < step.end_ns; ++call) {
    const std::int64_t begin = std::max(call->begin_ns, covered);
    const std::int64_t end = std::min(call->end_ns, step.end_ns);
    if (end <= begin) continue;
    time += end - begin;
    covered = end;
  }
  return time;
}

// The worker's own time in a step: what its devices did besides communication, and why they idled.
// A trace without devices tells only the time between calls.
std::array<std::int64_t, kCauses> OwnTime(const digest::Digest& digest, const digest::Step& step) {
  std::array<std::int64_t, kCauses> own{};
  const auto at = [&](Cause cause) -> std::int64_t& {
    return own[static_cast<std::size_t>(cause)];
  };
  std::int64_t idle = 0;
  at(Cause::kInput) = ClampedDuration(step.host.input_ns);
  if (digest.knows.device && step.time.span_ns > 0) {
    at(Cause::kCompute) = ClampedDuration(step.time.compute_ns);
    at(Cause::kCopies) = ClampedDuration(step.time.exposed_copies_ns);
    at(Cause::kInput) = ClampedDuration(step.host.input_stall_ns);
    at(Cause::kHost) = ClampedDuration(step.host.host_bound_ns);
    idle = ClampedDuration(step.time.idle_ns);
  } else {
    idle = step.end_ns - step.begin_ns - TimeInCalls(digest, step);
  }
  at(Cause::kGarbageCollection) = ClampedDuration(step.host.garbage_collection_ns);
  const std::int64_t explained =
      at(Cause::kInput) + at(Cause::kHost) + at(Cause::kGarbageCollection);
  at(Cause::kOther) = ClampedDuration(idle - explained);
  return own;
}

// Where annotations end so close to the next step's begin, nothing of a step lies outside of its
// annotation: torch.profiler's step() ends one and begins the next.
constexpr double kOutsideAnnotation = 0.02;
// A last step is not whole if it is shorter than this share of a typical one: the recording ended
// in the middle of it.
constexpr double kCutStep = 0.75;

double StepLength(const digest::Step& step) {
  return static_cast<double>(step.end_ns) - static_cast<double>(step.begin_ns);
}

// What the steps that another one follows say about one that none follows.
class LastSteps {
 public:
  explicit LastSteps(const std::vector<const digest::Step*>& followed) {
    std::vector<double> lengths, outside;
    for (const digest::Step* step : followed) {
      const double after = static_cast<double>(step->end_ns) -
                           static_cast<double>(std::min(step->annotation_end_ns, step->end_ns));
      lengths.push_back(StepLength(*step));
      outside.push_back(after / StepLength(*step));
    }
    covered_ = !followed.empty() && Median(outside) <= kOutsideAnnotation;
    shortest_ = kCutStep * Median(lengths);
  }

  bool IsWhole(const digest::Step& step) const {
    return covered_ && step.annotation_end_ns == step.end_ns && StepLength(step) >= shortest_;
  }

 private:
  bool covered_ = false;  // The annotations cover whole steps.
  double shortest_ = 0;   // A shorter step was cut.
};

}  // namespace

std::int64_t CommonTime(const digest::Digest& digest, std::int64_t time_ns) {
  // The first sum cannot overflow, because both terms are clamped; the second one saturates.
  return Clamped(
      AddSaturated(Clamped(digest.zero_ns) + Clamped(time_ns), -Clamped(digest.clock_offset_ns)));
}

JobWorker WorkerOf(const digest::Digest& digest) {
  JobWorker worker{.name = CutUtf8(digest.worker, kMaxWorkerBytes),
                   .rank = digest.rank,
                   .on_common_clock = digest.zero_ns != 0,
                   .time = WorkerTimeOf(digest)};
  if (const std::optional<std::uint32_t> stage = StageOf(digest)) {
    worker.stage = *stage;
    worker.in_pipeline = true;
  }
  if (digest.clock_error_ns && digest.zero_ns != 0)
    worker.clock_error_ns = ClampedDuration(*digest.clock_error_ns);
  const auto tells = [&](Cause cause, bool value) {
    worker.tells[static_cast<std::size_t>(cause)] = value;
  };
  tells(Cause::kCompute, digest.knows.device);
  tells(Cause::kCopies, digest.knows.device);
  tells(Cause::kInput, digest.knows.input);
  tells(Cause::kHost, digest.knows.device && digest.knows.launches);
  tells(Cause::kGarbageCollection, digest.knows.garbage_collection);
  return worker;
}

std::vector<WorkerStepTime> StepsOf(const digest::Digest& digest, std::size_t max,
                                    std::string_view& loop) {
  const auto valid = [&](const digest::Step& step) {
    return step.loop < digest.names.size() && step.begin_ns < step.end_ns &&
           step.begin_ns > -kFarNs && step.end_ns < kFarNs;
  };
  std::map<std::uint32_t, std::int64_t> taken;
  for (const digest::Step& step : digest.steps) {
    if (valid(step)) taken[step.loop] = AddSaturated(taken[step.loop], step.end_ns - step.begin_ns);
  }
  if (taken.empty()) return {};
  const auto main = std::max_element(
      taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  loop = digest.names[main->first];
  std::vector<const digest::Step*> followed;
  for (const digest::Step& step : digest.steps) {
    if (valid(step) && step.loop == main->first && step.followed) followed.push_back(&step);
  }
  const LastSteps last_steps(followed);
  std::vector<WorkerStepTime> steps;
  std::set<std::int64_t> seen;
  for (const digest::Step& step : digest.steps) {
    if (!valid(step) || step.loop != main->first || steps.size() >= max) continue;
    if (!seen.insert(step.number).second) continue;
    steps.push_back({.number = step.number,
                     .whole = step.followed || last_steps.IsWhole(step),
                     .time = {.begin_ns = CommonTime(digest, step.begin_ns),
                              .end_ns = CommonTime(digest, step.end_ns),
                              .own_ns = OwnTime(digest, step)}});
  }
  return steps;
}

}  // namespace strobe::report
