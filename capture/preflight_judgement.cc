#include "capture/preflight_judgement.h"

#include <algorithm>
#include <utility>

#include "capture/step_plan.h"
#include "common/base/strings.h"
#include "common/base/version.h"

namespace strobe::capture {
namespace {

constexpr Nanos kMaxAdoptedGuard = std::chrono::seconds(10);  // Sidecars accept no longer one.
// How much later than the requested start an adopted instant may be. Arming, the sources' lead and
// differing operator clocks amount to far less.
constexpr Nanos kMaxAdoptedLead = std::chrono::minutes(5);
// PlanStep allows twice the time that the steps are expected to take.
constexpr Nanos kMaxAdoptedSteps = 2 * (kMaxStepWait + kMaxStepsTime) + kMaxAdoptedLead;

PreflightJudgement Unable(Outcome outcome, std::string message) {
  return {PreflightJudgement::Kind::kUnable, outcome, std::move(message)};
}

// Why the target's only_container cannot be recorded without the pod's other containers; empty when
// it can.
std::string WhyNotContainer(const Target& target, v1::SourceKind source,
                            const v1::DescribeResponse& description) {
  if (target.only_container.empty()) return "";
  if (source == v1::SOURCE_FRAMEWORK)
    return "the containers of a pod share its ports, so a profiler server cannot be attributed to "
           "one of them; use source Agent, or omit target.container";
  const auto& known = description.containers();
  if (std::find(known.begin(), known.end(), target.only_container) != known.end()) return "";
  return StrCat("its sidecar cannot distinguish the programs of container ", target.only_container,
                " from those of the pod's other containers; omit target.container, or name only "
                "that container in the annotation strobe.dev/containers and recreate the pod");
}

// Like WhyNotAdopted, for a plan that counts steps.
std::string WhyNotAdoptedSteps(const PreflightQuestion& question, const v1::CapturePlan& plan) {
  if (!question.spec.steps || plan.steps() > question.spec.steps->count ||
      Nanos{plan.guard_ns()} > kMaxAdoptedGuard)
    return "it records more steps than were requested";
  const WallTime by = FromUnixNanos(plan.steps_by_ns() - plan.clock_offset_ns());
  if (by > question.now + kMaxAdoptedSteps)
    return StrCat("its steps may end only at ", FormatRfc3339(by));
  return "";
}

// Why the capture that the sidecar reports cannot be this attempt's; empty when it can. The plan of
// an adopted capture becomes the plan for all workers, so a sidecar that lies must not choose it.
std::string WhyNotAdopted(const PreflightQuestion& question, const v1::Report& report) {
  const v1::CapturePlan& plan = report.plan();
  if (report.capture_id() != question.capture_id || plan.capture_id() != question.capture_id)
    return "its report is of another capture";
  if (plan.run() != question.run) return "it records into another run";
  if (plan.steps() > 0) return WhyNotAdoptedSteps(question, plan);
  if (Nanos{plan.duration_ns()} > question.spec.duration ||
      Nanos{plan.look_back_ns()} > question.spec.look_back ||
      Nanos{plan.guard_ns()} > kMaxAdoptedGuard)
    return "it records for longer than was requested";
  const WallTime instant = FromUnixNanos(plan.instant_ns() - plan.clock_offset_ns());
  const WallTime latest = std::max(question.now + question.spec.delay.value_or(Nanos{0}),
                                   question.requested_start.value_or(question.now));
  if (instant > latest + kMaxAdoptedLead) return StrCat("its instant is ", FormatRfc3339(instant));
  return "";
}

// Why no source can record; empty when one can. A capture that reaches back can also read what
// ended programs wrote.
std::string WhyNoSource(const Spec& spec, const v1::DescribeResponse& description) {
  const auto& sources = description.sources();
  if (spec.look_back > Nanos{0} &&
      std::any_of(sources.begin(), sources.end(),
                  [](const v1::Source& source) { return source.ended_programs() > 0; }))
    return "";
  std::string why;
  for (const bool agent : {false, true}) {
    const auto lacking = std::find_if(sources.begin(), sources.end(), [&](const auto& source) {
      return !source.ready() && (source.kind() == v1::SOURCE_AGENT) == agent;
    });
    if (lacking == sources.end()) continue;
    why += StrCat(why.empty() ? "" : "; ", agent ? "agent directory " : "profiler server at ",
                  lacking->address(), ": ", lacking->detail());
  }
  return why;
}

// Why the worker's inference server has too few requests; empty if it has enough.
std::string WhyNoRequests(const Spec& spec, const v1::DescribeResponse& description) {
  if (spec.min_running_requests == 0) return "";
  if (!description.has_running_requests())
    return "NoRequests: none of its processes reports iterations of an inference server, which "
           "minRunningRequests counts the requests of";
  if (description.running_requests() >= spec.min_running_requests) return "";
  return StrCat("NoRequests: ", description.running_requests(), " of ", spec.min_running_requests,
                " requests run or wait in its server; send load to it");
}

}  // namespace

PreflightJudgement JudgePreflight(const PreflightQuestion& question, const Target& target,
                                  const absl::StatusOr<Preflight>& answer) {
  if (!answer.ok()) {
    return Unable(OutcomeOfFailedCall(answer.status()),
                  StrCat("no answer at ", target.address, ": ", MessageOf(answer.status())));
  }
  const v1::DescribeResponse& description = answer->description;
  if (description.protocol() != kWorkerProtocol) {
    return Unable(
        Outcome::kVersionMismatch,
        StrCat("sidecar ", description.version(), " speaks protocol ", description.protocol(),
               ", but this is Strobe ", kVersion, " with protocol ", kWorkerProtocol));
  }
  // Asked first, because a worker that already records this capture would count as busy below.
  if (description.has_report()) {
    const std::string why = WhyNotAdopted(question, description.report());
    if (why.empty()) return {PreflightJudgement::Kind::kAdopted, Outcome::kUnknown, ""};
    return Unable(Outcome::kWorkerLost,
                  StrCat("its sidecar claims to be recording for this capture, but ", why));
  }
  if (std::string why = WhyNotContainer(target, question.spec.source, description); !why.empty())
    return Unable(Outcome::kSidecarMissing, std::move(why));
  if (!description.holder().empty()) {
    return Unable(Outcome::kBusy, StrCat("capture ", description.holder(), " holds this worker"));
  }
  if (std::string why = WhyNoSource(question.spec, description); !why.empty())
    return Unable(Outcome::kNoSource, std::move(why));
  if (std::string why = WhyNoRequests(question.spec, description); !why.empty())
    return Unable(Outcome::kNoSource, std::move(why));
  return {PreflightJudgement::Kind::kReady, Outcome::kUnknown, ""};
}

bool HasFramework(const v1::DescribeResponse& description) {
  return std::any_of(description.sources().begin(), description.sources().end(),
                     [](const v1::Source& source) {
                       return source.ready() && source.kind() == v1::SOURCE_FRAMEWORK;
                     });
}

Outcome OutcomeOfFailedCall(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnimplemented:
      return Outcome::kVersionMismatch;
    case absl::StatusCode::kInvalidArgument:
      // The sidecar refuses the plan: most often it cannot write to the logdir.
      return Outcome::kUploadFailed;
    default:
      return Outcome::kUnreachable;
  }
}

}  // namespace strobe::capture
