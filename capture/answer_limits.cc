#include "capture/answer_limits.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::capture {
namespace {

// Sidecars keep to these limits themselves; see the comments in worker.proto.
constexpr std::size_t kMaxAnswerMessageBytes = 1024;
constexpr std::size_t kMaxTextBytes = 512;
constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxProcessNoteBytes = 256;
constexpr std::size_t kMaxUrlBytes = 2048;
constexpr std::size_t kHashBytes = 64;
constexpr int kMaxPlanes = 32;
constexpr int kMaxNotes = 8;
constexpr int kMaxProcesses = 64;
constexpr int kMaxSources = 64;
constexpr int kMaxRanks = 64;
// Like the sidecar, which reads at most nine digits.
constexpr std::uint32_t kMaxProcessRank = 999'999'999;
constexpr std::size_t kMaxReasons = 16;
constexpr int kMaxEvidenceFiles = 4096, kMaxEvidenceNotes = 64;
// The sum over all workers of a job must fit into 64 bits too.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;

constexpr Nanos kMaxLateness = std::chrono::seconds(10);
constexpr Nanos kMaxSourceLead = std::chrono::seconds(30);
constexpr Nanos kMaxStage = std::chrono::hours(24);

void Cut(std::string* text, std::size_t bytes) { *text = CutUtf8(*text, bytes); }

template <typename List>
void Shorten(List* list, int most) {
  if (list->size() > most) list->DeleteSubrange(most, list->size() - most);
}

std::int64_t Time(std::int64_t nanos) { return std::clamp<std::int64_t>(nanos, 0, kMaxTimeNs); }
std::int64_t Span(std::int64_t nanos, Nanos most) {
  return std::clamp<std::int64_t>(nanos, 0, most.count());
}

// Replaces an outcome that this operator does not know, so that it is never taken for a success.
// With `ended`, OUTCOME_UNSPECIFIED counts as unknown too.
v1::Outcome KnownOutcome(v1::Outcome outcome, bool ended, std::string* message) {
  if (v1::Outcome_IsValid(outcome) && !(ended && outcome == v1::OUTCOME_UNSPECIFIED))
    return outcome;
  *message = StrCat("the sidecar reports outcome ", static_cast<int>(outcome),
                    ", which this operator does not know", message->empty() ? "" : ": ", *message);
  return v1::VERSION_MISMATCH;
}

// Step numbers are added to and multiplied with.
std::int64_t StepNumber(std::int64_t number) {
  return std::clamp<std::int64_t>(number, 0, std::int64_t{1} << 53);
}

void Bound(v1::StepPace& pace) {
  Cut(pace.mutable_loop(), kMaxNameBytes);
  Cut(pace.mutable_process(), kMaxNameBytes);
  pace.clear_teller();
  pace.set_number(StepNumber(pace.number()));
  pace.set_began_ns(Time(pace.began_ns()));
  pace.set_ended_ns(Time(pace.ended_ns()));
  pace.set_period_ns(Span(pace.period_ns(), kMaxStage));
  pace.set_fastest_ns(Span(pace.fastest_ns(), kMaxStage));
  pace.set_slowest_ns(Span(pace.slowest_ns(), kMaxStage));
}

void Bound(v1::RecordedSteps& steps) {
  Cut(steps.mutable_loop(), kMaxTextBytes);
  steps.set_first(StepNumber(steps.first()));
  steps.set_last(std::max(steps.first(), StepNumber(steps.last())));
  steps.set_began_ns(Time(steps.began_ns()));
  steps.set_ended_ns(Time(steps.ended_ns()));
}

void Bound(v1::CapturePlan& plan) {
  for (std::string* text : {plan.mutable_capture_id(), plan.mutable_worker(), plan.mutable_run()})
    Cut(text, kMaxTextBytes);
  Cut(plan.mutable_request(), kMaxTextBytes);
  Cut(plan.mutable_logdir(), kMaxUrlBytes);
  plan.set_instant_ns(Time(plan.instant_ns()));
  plan.set_deadline_ns(Time(plan.deadline_ns()));
  plan.set_first_step(StepNumber(plan.first_step()));
  Cut(plan.mutable_step_loop(), kMaxNameBytes);
  plan.set_steps_by_ns(Time(plan.steps_by_ns()));
  plan.set_duration_ns(Span(plan.duration_ns(), kMaxStage));
  plan.set_guard_ns(Span(plan.guard_ns(), kMaxStage));
  plan.set_look_back_ns(Span(plan.look_back_ns(), kMaxStage));
  plan.set_max_pause_ns(Span(plan.max_pause_ns(), kMaxStage));
  plan.set_clock_offset_ns(
      std::clamp<std::int64_t>(plan.clock_offset_ns(), -kMaxOffsetNs, kMaxOffsetNs));
  plan.set_clock_error_ns(
      std::clamp<std::int64_t>(plan.clock_error_ns(), -1, Nanos{kMaxStage}.count()));
  plan.set_wall_less_monotonic_ns(Time(plan.wall_less_monotonic_ns()));
}

void Bound(v1::ProcessRank& rank) {
  rank.set_local_rank(std::min(rank.local_rank(), kMaxProcessRank));
  if (rank.has_rank()) rank.set_rank(std::min(rank.rank(), kMaxProcessRank));
}

void Bound(v1::ProcessReport& process) {
  Cut(process.mutable_name(), kMaxNameBytes);
  Cut(process.mutable_message(), kMaxTextBytes);
  process.set_outcome(KnownOutcome(process.outcome(), /*ended=*/true, process.mutable_message()));
  Cut(process.mutable_message(), kMaxTextBytes);
  process.set_started_ns(Time(process.started_ns()));
  process.set_stopped_ns(Time(process.stopped_ns()));
  if (process.has_rank()) Bound(*process.mutable_rank());
  Cut(process.mutable_note(), kMaxProcessNoteBytes);
  Cut(process.mutable_original(), kMaxTextBytes);
  process.set_stop_took_ns(Span(process.stop_took_ns(), kMaxStage));
  if (process.has_reached_back_ns())
    process.set_reached_back_ns(Span(process.reached_back_ns(), kMaxStage));
  if (process.has_engine()) Cut(process.mutable_engine()->mutable_program(), kMaxNameBytes);
  Cut(process.mutable_role(), kMaxNameBytes);
  Cut(process.mutable_role_from(), kMaxTextBytes);
  if (process.has_devices_reached_back_ns())
    process.set_devices_reached_back_ns(Span(process.devices_reached_back_ns(), kMaxStage));
}

void BoundDropped(v1::Report& report) {
  auto& dropped = *report.mutable_dropped_events();
  google::protobuf::Map<std::string, std::uint64_t> kept;
  for (const auto& [reason, events] : dropped) {
    if (kept.size() < kMaxReasons) kept[CutUtf8(reason, kMaxNameBytes)] = events;
  }
  dropped = std::move(kept);
}

}  // namespace

void BoundAnswer(v1::Report& report) {
  Cut(report.mutable_capture_id(), kMaxTextBytes);
  Cut(report.mutable_message(), kMaxAnswerMessageBytes);
  report.set_outcome(
      KnownOutcome(report.outcome(), report.state() == v1::DONE, report.mutable_message()));
  Cut(report.mutable_message(), kMaxAnswerMessageBytes);
  Cut(report.mutable_sha256(), kHashBytes);
  Cut(report.mutable_url(), kMaxUrlBytes);
  if (report.has_plan()) Bound(*report.mutable_plan());
  report.set_started_ns(Time(report.started_ns()));
  report.set_stopped_ns(Time(report.stopped_ns()));
  report.set_bytes(std::min(report.bytes(), kMaxBytes));
  Shorten(report.mutable_planes(), kMaxPlanes);
  for (std::string& plane : *report.mutable_planes()) Cut(&plane, kMaxTextBytes);
  Shorten(report.mutable_notes(), kMaxNotes);
  for (std::string& note : *report.mutable_notes()) Cut(&note, kMaxTextBytes);
  report.set_record_took_ns(Span(report.record_took_ns(), kMaxStage));
  report.set_collect_took_ns(Span(report.collect_took_ns(), kMaxStage));
  report.set_upload_took_ns(Span(report.upload_took_ns(), kMaxStage));
  if (report.has_job()) {
    v1::JobEffect& job = *report.mutable_job();
    job.set_memory_percent(std::min(job.memory_percent(), 1000u));
    job.set_step_before_ns(Span(job.step_before_ns(), kMaxStage));
    job.set_step_during_ns(Span(job.step_during_ns(), kMaxStage));
  }
  if (report.has_reached_back_ns())
    report.set_reached_back_ns(Span(report.reached_back_ns(), kMaxStage));
  if (report.has_rank()) Bound(*report.mutable_rank());
  // The nested reports must not have nested reports of their own.
  Shorten(report.mutable_workers(), kMaxRanks);
  for (v1::Report& worker : *report.mutable_workers()) {
    worker.clear_workers();
    worker.set_state(report.state());
    BoundAnswer(worker);
  }
  if (report.has_steps()) Bound(*report.mutable_steps());
  BoundDropped(report);
  Shorten(report.mutable_processes(), kMaxProcesses);
  for (v1::ProcessReport& process : *report.mutable_processes()) Bound(process);
}

void BoundAnswer(v1::DescribeResponse& response) {
  Cut(response.mutable_version(), kMaxNameBytes);
  Cut(response.mutable_worker(), kMaxTextBytes);
  Cut(response.mutable_holder(), kMaxTextBytes);
  Shorten(response.mutable_sources(), kMaxSources);
  for (v1::Source& source : *response.mutable_sources()) {
    Cut(source.mutable_address(), kMaxTextBytes);
    Cut(source.mutable_detail(), kMaxTextBytes);
    Shorten(source.mutable_ranks(), kMaxRanks);
    for (v1::ProcessRank& rank : *source.mutable_ranks()) Bound(rank);
  }
  Shorten(response.mutable_steps(), kMaxSources);
  for (v1::StepPace& pace : *response.mutable_steps()) Bound(pace);
  response.set_wake_lateness_ns(Span(response.wake_lateness_ns(), kMaxLateness));
  response.set_capture_lateness_ns(Span(response.capture_lateness_ns(), kMaxLateness));
  response.set_lead_ns(Span(response.lead_ns(), kMaxSourceLead));
  if (response.has_stall()) {
    v1::Stall& stall = *response.mutable_stall();
    stall.set_since_ns(Time(stall.since_ns()));
    stall.set_usual_step_ns(Span(stall.usual_step_ns(), kMaxStage));
  }
  if (response.has_report()) BoundAnswer(*response.mutable_report());
}

void BoundAnswer(v1::ArmResponse& response) {
  Cut(response.mutable_message(), kMaxAnswerMessageBytes);
  if (!response.accepted()) {
    // A refusal must have a cause, and Ok is none.
    const bool no_cause = response.refusal() == v1::OK;
    response.set_refusal(KnownOutcome(no_cause ? v1::OUTCOME_UNSPECIFIED : response.refusal(),
                                      /*ended=*/true, response.mutable_message()));
    Cut(response.mutable_message(), kMaxAnswerMessageBytes);
  }
  if (response.has_report()) BoundAnswer(*response.mutable_report());
}

void BoundAnswer(v1::CancelResponse&) {}
void BoundAnswer(v1::ReclaimResponse&) {}
void BoundAnswer(v1::ReadDigestResponse&) {}  // DecodeDigest trusts no byte of it.

// The readers of evidence trust no byte of the files. Their names become paths.
void BoundAnswer(v1::ReadEvidenceResponse& response) {
  Shorten(response.mutable_files(), kMaxEvidenceFiles);
  for (v1::EvidenceFile& file : *response.mutable_files())
    file.set_name(ToSafeName(file.name(), kMaxNameBytes));
  Shorten(response.mutable_notes(), kMaxEvidenceNotes);
  for (std::string& note : *response.mutable_notes()) Cut(&note, kMaxTextBytes);
  response.set_looked_at_ns(Time(response.looked_at_ns()));
}

void BoundAnswer(v1::PublishResponse& response) {
  Cut(response.mutable_url(), kMaxUrlBytes);
  Cut(response.mutable_report_url(), kMaxUrlBytes);
  Cut(response.mutable_evidence_url(), kMaxUrlBytes);
}

void BoundAnswer(v1::ClockPong& pong) {
  pong.set_received_ns(Time(pong.received_ns()));
  pong.set_sent_ns(Time(pong.sent_ns()));
  pong.set_wall_less_monotonic_ns(Time(pong.wall_less_monotonic_ns()));
}

absl::Status BoundError(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), CutUtf8(ToStd(status.message()), kMaxAnswerMessageBytes));
}

}  // namespace strobe::capture
