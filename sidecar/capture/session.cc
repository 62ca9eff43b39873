#include "sidecar/capture/session.h"

#include <algorithm>

#include "collector/store/logdir.h"
#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/protocol/capture_defaults.h"
#include "common/text/safe_text.h"

namespace strobe::session {
namespace {

constexpr int kMaxRanks = 4096, kMaxLocalRanks = 64;
constexpr std::size_t kMaxCaptureId = 128;
constexpr std::int64_t kLatestMoment = std::int64_t{1} << 62;

absl::Status CheckRange(std::string_view field, std::int64_t value, Nanos least, Nanos most) {
  if (Nanos{value} >= least && Nanos{value} <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat(field, " is ", FormatDuration(Nanos{value}),
                                           "; it must be between ", FormatDuration(least), " and ",
                                           FormatDuration(most)));
}

// Keeps sums of the plan's times from overflowing.
absl::Status CheckMoment(std::string_view field, std::int64_t value) {
  if (value >= 0 && value <= kLatestMoment) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat(field, " is not between 1970 and 2116"));
}

absl::Status CheckName(std::string_view field, const std::string& value, std::size_t longest) {
  if (IsSafeName(value, longest)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat(field, " must have 1 to ", longest,
             " characters of [A-Za-z0-9._-], not starting with a dot"));
}

absl::Status CheckSteps(const v1::CapturePlan& plan) {
  if (plan.steps() > kMaxCaptureSteps)
    return absl::InvalidArgumentError(StrCat("steps must be at most ", kMaxCaptureSteps));
  if (plan.first_step() < 0 || plan.first_step() > kLastStep)
    return absl::InvalidArgumentError(StrCat("first_step must be from 0 to ", kLastStep));
  if (plan.step_loop().empty()) return absl::InvalidArgumentError("step_loop is missing");
  if (plan.steps_by_ns() <= plan.instant_ns() || plan.steps_by_ns() >= plan.deadline_ns())
    return absl::InvalidArgumentError("steps_by must be after the instant and before the deadline");
  return absl::OkStatus();
}

}  // namespace

std::string TooLarge(const v1::CapturePlan& plan, std::uint64_t bytes) {
  if (plan.max_bytes() > 0 && bytes > plan.max_bytes())
    return StrCat("the trace has ", bytes, " bytes; the limit is ", plan.max_bytes());
  if (bytes > kMaxTrace)
    return StrCat("the trace has ", bytes, " bytes; XProf cannot open files of 2 GiB or more");
  return "";
}

absl::Status CheckPlan(const v1::CapturePlan& plan) {
  absl::Status status = CheckName("capture_id", plan.capture_id(), kMaxCaptureId);
  status.Update(CheckName("run", plan.run(), 253));
  status.Update(CheckName("worker", plan.worker(), 240));
  status.Update(
      CheckRange("duration", plan.duration_ns(), kMinCaptureDuration, kMaxCaptureDuration));
  status.Update(CheckRange("guard", plan.guard_ns(), Nanos{0}, kMaxGuard));
  status.Update(CheckRange("look_back", plan.look_back_ns(), Nanos{0}, kMaxLookBack));
  status.Update(CheckRange("max_pause", plan.max_pause_ns(), Nanos{0}, kLongestPause));
  if (plan.ranks_size() > kMaxRanks || plan.local_ranks_size() > kMaxLocalRanks) {
    status.Update(absl::InvalidArgumentError(StrCat(
        "ranks has more than ", kMaxRanks, " entries, or local_ranks more than ", kMaxLocalRanks)));
  }
  status.Update(storage::Logdir::Parse(plan.logdir()).status());
  if (plan.steps() > 0) status.Update(CheckSteps(plan));
  status.Update(CheckMoment("instant", plan.instant_ns()));
  status.Update(CheckMoment("deadline", plan.deadline_ns()));
  if (!status.ok()) return status;
  if (plan.deadline_ns() <= plan.instant_ns() + plan.duration_ns())
    return absl::InvalidArgumentError("deadline must be after the end of the window");
  return status;
}

bool Session::HasLive() const { return !reports_.empty() && reports_.back().state() != v1::DONE; }

void Session::Restore(v1::Report report) {
  reports_.push_back(std::move(report));
  if (reports_.size() > kRemembered) reports_.pop_front();
}

ArmDecision Session::Arm(const v1::CapturePlan& plan, WallTime now) {
  // A repeated Arm, such as after a lost answer, is accepted but not fresh.
  if (Find(plan.capture_id()) != nullptr) return {.accepted = true};
  if (IsForbidden(plan.capture_id()))
    return {.refusal = Outcome::kCancelled, .message = "it was cancelled before it was armed"};
  if (HasLive()) {
    const v1::Report& live = reports_.back();
    return {.refusal = Outcome::kBusy,
            .message = StrCat("capture ", live.capture_id(), " of ", live.plan().request(),
                              " holds this worker")};
  }
  const Nanos lead = FromUnixNanos(plan.instant_ns() - plan.guard_ns()) - now;
  if (lead < kMinLead) {
    return {.refusal = Outcome::kLateStart,
            .message = StrCat("recording would have to begin in ", FormatDuration(lead),
                              "; this sidecar needs at least ", FormatDuration(kMinLead))};
  }
  if (lead > kMaxLead) {
    return {.refusal = Outcome::kLateStart,
            .message = StrCat("the instant is ", FormatDuration(lead), " away; at most ",
                              FormatDuration(kMaxLead), " is allowed. Check the clocks")};
  }
  v1::Report report;
  report.set_capture_id(plan.capture_id());
  report.set_state(v1::ARMED);
  *report.mutable_plan() = plan;
  reports_.push_back(std::move(report));
  if (reports_.size() > kRemembered) reports_.pop_front();
  return {.accepted = true, .fresh = true};
}

void Session::Forbid(std::string_view capture_id) {
  // No plan has another kind of id, and one of megabytes must not be kept.
  if (Find(capture_id) != nullptr || !IsSafeName(capture_id, kMaxCaptureId)) return;
  if (IsForbidden(capture_id)) return;  // A repeated Cancel must not push the others out.
  forbidden_.emplace_back(capture_id);
  if (forbidden_.size() > kRemembered) forbidden_.pop_front();
}

bool Session::IsForbidden(std::string_view capture_id) const {
  return std::find(forbidden_.begin(), forbidden_.end(), capture_id) != forbidden_.end();
}

const v1::Report* Session::Find(std::string_view capture_id) const {
  const auto found =
      std::find_if(reports_.rbegin(), reports_.rend(),
                   [&](const v1::Report& report) { return report.capture_id() == capture_id; });
  return found == reports_.rend() ? nullptr : &*found;
}

void Session::Update(const v1::Report& report) {
  if (!HasLive() || reports_.back().capture_id() != report.capture_id()) return;
  if (report.state() < reports_.back().state()) return;
  reports_.back() = report;
}

std::string Session::holder() const { return HasLive() ? reports_.back().capture_id() : ""; }

Nanos Session::WorstLateness() const {
  Nanos worst{0};
  for (const v1::Report& report : reports_) {
    if (report.started_ns() != 0) worst = std::max(worst, Lateness(report));
  }
  return worst;
}

Nanos Lateness(const v1::Report& report) {
  if (report.plan().steps() > 0) return Nanos{0};
  return Nanos{report.started_ns() - (report.plan().instant_ns() - report.plan().guard_ns())};
}

}  // namespace strobe::session
