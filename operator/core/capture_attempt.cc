#include "operator/core/capture_attempt.h"

#include <algorithm>
#include <utility>

#include "collector/logdir/logdir.h"
#include "common/base/duration.h"
#include "common/base/guard.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "operator/core/pod_evidence.h"

namespace strobe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nanos kCheckTimeout = seconds(3);
constexpr Nanos kCancelTimeout = seconds(2);
constexpr Nanos kPublishTimeout = seconds(20);  // Of one worker;
constexpr Nanos kPublishLimit = seconds(60);    // of all that are asked, one after the other.
// Before the guard: when arming must be settled, so that calling off still reaches everybody.
constexpr Nanos kArmMargin = milliseconds(150);
// A worker that nobody can reach for so long after it should have recorded is lost.
constexpr Nanos kLostAfter = seconds(10);
constexpr Nanos kCancelGrace = seconds(5);
constexpr Nanos kEvidenceTimeout = seconds(5);
constexpr Nanos kAskAgain = seconds(1);
constexpr Nanos kMaxGuard = seconds(10);  // The longest that sidecars take.
// Arming, the sources' lead and clocks of operators put an instant no further behind what was
// asked.
constexpr Nanos kMaxLead = std::chrono::minutes(5);
// Clocks drift by tens of microseconds a second; an offset that is older is measured again.
constexpr Nanos kFreshClock = seconds(2);

Outcome OutcomeOfCall(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnimplemented:
      return Outcome::kVersionMismatch;
    case absl::StatusCode::kInvalidArgument:
      return Outcome::kUploadFailed;  // The sidecar cannot write to this logdir, or refuses the
                                      // plan.
    default:
      return Outcome::kUnreachable;
  }
}

// Why the programs of the one container that is wanted cannot be recorded alone.
std::string WhyNotContainer(const Target& target, v1::SourceKind source,
                            const v1::DescribeResponse& description) {
  if (target.only_container.empty()) return "";
  if (source == v1::SOURCE_FRAMEWORK)
    return "containers of a pod share its ports, so that a profiler server cannot be told to be of "
           "one of them; use source Agent, or leave target.container out";
  const auto& known = description.containers();
  if (std::find(known.begin(), known.end(), target.only_container) != known.end()) return "";
  return StrCat("its sidecar cannot tell the programs of container ", target.only_container,
                " from those of the pod's other containers; leave target.container out, or name "
                "only that container in the annotation strobe.dev/containers and recreate the pod");
}

Nanos LongestRecorded(const std::vector<WorkerResult>& workers) {
  Nanos longest{0};
  for (const WorkerResult& worker : workers)
    longest = std::max(longest, Nanos{worker.report.plan().duration_ns()});
  return longest;
}

}  // namespace

std::string CaptureId(const CaptureSpec& spec, int attempt) {
  return StrCat(spec.uid, "-", attempt);
}

std::string_view Name(Phase phase) {
  switch (phase) {
    case Phase::kPreflight:
      return "preflight";
    case Phase::kArming:
      return "arm";
    case Phase::kDelay:
      return "delay";
    case Phase::kRecording:
      return "record";
    case Phase::kCollecting:
      return "collect";
    case Phase::kPublishing:
      return "publish";
    case Phase::kDone:
      return "done";
  }
  return "";
}

std::shared_ptr<CaptureAttempt> CaptureAttempt::Start(Dependencies dependencies, CaptureSpec spec,
                                                      int attempt, std::vector<Target> targets,
                                                      std::function<void()> changed) {
  std::shared_ptr<CaptureAttempt> self(new CaptureAttempt(dependencies, std::move(spec), attempt,
                                                          std::move(targets), std::move(changed)));
  dependencies.executor.Post([self] { self->Do([&] { self->Begin(); }); });
  return self;
}

CaptureAttempt::CaptureAttempt(Dependencies dependencies, CaptureSpec spec, int attempt,
                               std::vector<Target> targets, std::function<void()> changed)
    : deps_(dependencies),
      spec_(std::move(spec)),
      clock_steps_(deps_.clock),
      changed_(std::move(changed)) {
  result_.attempt = attempt;
  result_.capture_id = CaptureId(spec_, attempt);
  result_.run = RunOfAttempt(spec_.run, attempt);
  for (Target& target : targets) {
    Member& member = members_.emplace_back();
    member.result.target = std::move(target);
  }
  progress_.matched = members_.size();
  progress_.workers_note = result_.workers_note = spec_.workers_note;
  progress_.expected_workers = result_.expected_workers = spec_.expected_workers;
}

AttemptProgress CaptureAttempt::progress() const {
  MutexLock lock(&mutex_);
  return progress_;
}

// Wraps a method into a callback that runs on the executor, and not at all once nobody holds us.
template <typename... Args>
auto CaptureAttempt::OnExecutor(void (CaptureAttempt::*method)(std::size_t, Args...),
                                std::size_t index) {
  return [weak = weak_from_this(), &executor = deps_.executor, method, index](Args... args) {
    executor.Post([weak, method, index, ... args = std::move(args)]() mutable {
      if (const auto self = weak.lock())
        self->Do([&] { (self.get()->*method)(index, std::move(args)...); });
    });
  };
}

// A task for the executor, which does nothing once nobody holds us.
template <typename Work>
auto CaptureAttempt::Task(Work work) {
  return [weak = weak_from_this(), work = std::move(work)] {
    if (const auto self = weak.lock()) self->Do([&] { work(*self); });
  };
}

template <typename Work>
void CaptureAttempt::Do(const Work& work) {
  if (phase() == Phase::kDone) return;  // What comes late meets nobody.
  if (const absl::Status done = RunGuarded("capture", work); !done.ok()) Abandon(Words(done));
}

// After an exception nobody knows what the rest of our state is worth: what is known by now is the
// result, and whoever is armed is told to forget it.
void CaptureAttempt::Abandon(const std::string& why) {
  result_.reason = "InternalError";
  result_.message = StrCat("the operator failed: ", why);
  const absl::Status told = RunGuarded("capture", [&] {
    v1::CancelRequest cancel;
    cancel.set_capture_id(result_.capture_id);
    cancel.set_reason(result_.message);
    result_.workers.clear();
    for (Member& member : members_) {
      if (!member.ended && member.result.armed && member.worker != nullptr)
        member.worker->Cancel(cancel, kCancelTimeout, [](absl::StatusOr<v1::CancelResponse>) {});
      if (!member.ended) {
        member.result.outcome = Outcome::kCancelled;
        member.result.message = result_.message;
      }
      member.ended = true;
      member.watch.reset();
      member.worker.reset();
      result_.workers.push_back(member.result);
    }
    strobe::Conclude(spec_, result_);
  });
  if (!told.ok()) result_.workers.clear();
  Enter(Phase::kDone);
}

void CaptureAttempt::Enter(Phase phase) {
  const MonoTime now = deps_.clock.MonoNow();
  {
    MutexLock lock(&mutex_);
    if (phase != progress_.phase) {
      progress_.took[progress_.phase] = now - std::exchange(phase_began_, now);
      progress_.phase = phase;
    }
    progress_.armed = CountArmed();
    progress_.ended = static_cast<std::size_t>(std::count_if(
        members_.begin(), members_.end(), [](const Member& member) { return member.ended; }));
    progress_.plan = result_.plan;
    progress_.waits_for = waits_for_;
    progress_.wants_evidence = wants_evidence_;
    if (phase == Phase::kDone) progress_.result = std::make_shared<const AttemptResult>(result_);
  }
  changed_();
}

Phase CaptureAttempt::phase() const {
  MutexLock lock(&mutex_);
  return progress_.phase;
}

bool CaptureAttempt::AllAnswered() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.answered; });
}

std::size_t CaptureAttempt::CountArmed() const {
  return static_cast<std::size_t>(std::count_if(
      members_.begin(), members_.end(), [](const Member& member) { return member.result.armed; }));
}

WallTime CaptureAttempt::Recorded() const {
  return result_.plan->instant + spec_.duration + result_.plan->guard;
}

std::size_t CaptureAttempt::Wanted() const {
  return spec_.min_workers == 0 ? members_.size() : spec_.min_workers;
}

WallTime CaptureAttempt::Now() const { return deps_.clock.WallNow() - clock_steps_.Since(); }

std::optional<WallTime> CaptureAttempt::StartTime() const {
  return spec_.at ? std::optional(*spec_.at - clock_steps_.Since()) : std::nullopt;
}

Nanos CaptureAttempt::Until(WallTime time) const { return std::max(time - Now(), Nanos{0}); }

void CaptureAttempt::Begin() {
  phase_began_ = deps_.clock.MonoNow();
  ready_by_ = phase_began_ + spec_.ready_timeout;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.result.target.outcome != Outcome::kUnknown) {
      EndMember(i, member.result.target.outcome, member.result.target.message);
      member.answered = true;
      continue;
    }
    member.worker = deps_.workers.Connect(member.result.target);
    Ask(i);
  }
  if (AllAnswered()) PlanAndArm();
}

void CaptureAttempt::Ask(std::size_t index) {
  Member& member = members_[index];
  member.answered = member.ended = member.result.ready = false;
  member.result.outcome = Outcome::kUnknown;
  member.result.message.clear();
  member.asked = deps_.clock.MonoNow();
  member.worker->Check(result_.capture_id, kCheckTimeout,
                       OnExecutor(&CaptureAttempt::OnChecked, index));
}

// A trainer that has not started its profiler server yet, or another capture that ends soon: while
// there is time and enough workers may come to be ready, they are asked again.
bool CaptureAttempt::AwaitReadiness() {
  const auto waitable = [](const Member& member) {
    return member.worker != nullptr && member.ended && Describe(member.result.outcome).waitable;
  };
  std::size_t hopeful = 0, waited = 0;
  const Member* first = nullptr;
  for (const Member& member : members_) {
    hopeful += member.result.ready || member.result.armed ? 1 : 0;
    if (!waitable(member)) continue;
    if (first == nullptr) first = &member;
    ++waited;
  }
  if (first == nullptr || hopeful + waited < Wanted() || deps_.clock.MonoNow() >= ready_by_)
    return false;
  waits_for_ =
      StrCat("waits for ", waited, " of ", members_.size(), " workers; ", first->result.target.name,
             ": ", Name(first->result.outcome), ": ", first->result.message);
  Enter(Phase::kPreflight);
  deps_.executor.PostAfter(kAskAgain, Task([waitable](CaptureAttempt& self) {
                             if (self.phase() != Phase::kPreflight || !self.cancel_reason_.empty())
                               return;
                             for (std::size_t i = 0; i < self.members_.size(); ++i) {
                               if (waitable(self.members_[i])) self.Ask(i);
                             }
                           }));
  return true;
}

// Those who were ready while others were waited for tell their clocks once more.
bool CaptureAttempt::RefreshClocks() {
  if (waits_for_.empty() || std::exchange(refreshed_, deps_.clock.MonoNow() >= ready_by_))
    return false;
  const MonoTime oldest = deps_.clock.MonoNow() - kFreshClock;
  bool asked = false;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].result.ready || members_[i].asked >= oldest) continue;
    Ask(i);
    asked = true;
  }
  return asked;
}

void CaptureAttempt::OnChecked(std::size_t index, absl::StatusOr<Preflight> answer) {
  Member& member = members_[index];
  if (phase() != Phase::kPreflight || member.answered) return;
  member.answered = true;
  const Target& target = member.result.target;
  if (!answer.ok()) {
    EndMember(index, OutcomeOfCall(answer.status()),
              StrCat("sidecar at ", target.address, ": ", Words(answer.status())));
  } else {
    const v1::DescribeResponse& description = answer->description;
    member.last_contact = Now();
    member.result.offset = answer->offset + clock_steps_.Since();
    member.result.error = answer->error;
    member.result.wall_less_monotonic = answer->wall_less_monotonic;
    member.clock = {target.name,
                    member.result.offset,
                    answer->error,
                    answer->round_trip,
                    Nanos{description.wake_lateness_ns()},
                    Nanos{description.capture_lateness_ns()},
                    Nanos{description.lead_ns()}};
    std::string not_ready;
    member.framework = false;
    for (const v1::Source& source : description.sources()) {
      member.framework |= source.ready() && source.kind() == v1::SOURCE_FRAMEWORK;
      if (!source.ready() && not_ready.empty())
        not_ready = StrCat("profiler server at ", source.address(), ": ", source.detail());
    }
    if (description.protocol() != kWorkerProtocol) {
      EndMember(
          index, Outcome::kVersionMismatch,
          StrCat("sidecar ", description.version(), " speaks protocol ", description.protocol(),
                 ", this is Strobe ", kVersion, " with protocol ", kWorkerProtocol));
    } else if (const std::string odd = WhyNotOurs(description); !odd.empty()) {
      EndMember(index, Outcome::kWorkerLost,
                StrCat("its sidecar claims to carry out this capture, but ", odd));
    } else if (description.has_report()) {
      // A capture that an operator before us armed: it goes on, we watch it.
      member.result.armed = true;
      member.result.report = description.report();
      member.result.offset = Nanos{description.report().plan().clock_offset_ns()};
      const std::int64_t error = description.report().plan().clock_error_ns();
      member.result.error = error < 0 ? std::nullopt : std::optional(Nanos{error});
    } else if (const std::string why = WhyNotContainer(target, spec_.source, description);
               !why.empty()) {
      EndMember(index, Outcome::kSidecarMissing, why);
    } else if (!description.holder().empty()) {
      EndMember(index, Outcome::kBusy,
                StrCat("capture ", description.holder(), " holds this worker"));
    } else if (!not_ready.empty()) {
      EndMember(index, Outcome::kNoSource, not_ready);
    } else {
      member.result.ready = true;
    }
  }
  if (AllAnswered()) PlanAndArm();
}

// The plan of a capture that is adopted counts for all of its workers.
std::string CaptureAttempt::WhyNotOurs(const v1::DescribeResponse& description) const {
  if (!description.has_report()) return "";
  const v1::Report& report = description.report();
  const v1::CapturePlan& plan = report.plan();
  if (report.capture_id() != result_.capture_id || plan.capture_id() != result_.capture_id)
    return "its report is of another one";
  if (plan.run() != result_.run) return "it records into another run";
  if (Nanos{plan.duration_ns()} > spec_.duration || Nanos{plan.guard_ns()} > kMaxGuard)
    return "it records for longer than anybody asked it to";
  const WallTime instant = FromUnixNanos(plan.instant_ns() - plan.clock_offset_ns());
  const WallTime now = Now();
  if (instant >
      std::max(now + spec_.delay.value_or(Nanos{0}), StartTime().value_or(now)) + kMaxLead)
    return StrCat("its instant is ", FormatRfc3339(instant));
  return "";
}

void CaptureAttempt::PlanAndArm() {
  if (!cancel_reason_.empty()) return;
  std::vector<ClockReading> ready;
  for (const Member& member : members_) {
    if (member.result.ready) ready.push_back(member.clock);
    if (member.result.armed && !result_.plan) {
      const v1::CapturePlan& plan = member.result.report.plan();
      result_.plan = StartPlan{.instant = FromUnixNanos(plan.instant_ns() - plan.clock_offset_ns()),
                               .guard = Nanos{plan.guard_ns()}};
    }
  }
  const std::size_t armed = CountArmed();
  if (armed + ready.size() < Wanted() || armed + ready.size() == 0) {
    if (AwaitReadiness()) return;
    return CallOff(StrCat("only ", armed + ready.size(), " of ", members_.size(),
                          " workers can record, at least ", Wanted(), " wanted"));
  }
  if (RefreshClocks()) return;
  waits_for_.clear();
  if (!result_.plan) {
    CaptureSpec spec = spec_;
    spec.at = StartTime();
    const absl::StatusOr<StartPlan> plan = PlanStart(spec, Now(), ready);
    if (!plan.ok()) {
      result_.reason = "ClockUncertain";
      result_.message = Words(plan.status());
      return CallOff(result_.message);
    }
    result_.plan = *plan;
  }
  deadline_ = Recorded() + spec_.collect_timeout.value_or(CollectBudget(spec_.duration));
  Enter(Phase::kArming);
  // Two-phase: what is not accepted well before the start is called off everywhere.
  const WallTime settled = result_.plan->instant - result_.plan->guard - kArmMargin;
  const Nanos timeout = std::max<Nanos>(Until(settled), milliseconds(50));
  bool asked = false;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    member.answered = !member.result.ready;
    if (!member.result.ready) continue;
    asked = true;
    ++arms_in_flight_;
    member.worker->Arm(PlanFor(member), timeout, OnExecutor(&CaptureAttempt::OnArmed, i));
  }
  if (!asked) AllArmed();
}

// Which source records a worker is known once its sidecar has said what there is.
bool CaptureAttempt::ExpectsDevice(const Member& member) const {
  const Target& target = member.result.target;
  if (spec_.tracers.device() == 0) return false;
  const bool framework =
      spec_.source == v1::SOURCE_FRAMEWORK ||
      (spec_.source == v1::SOURCE_AUTO && member.framework && target.only_container.empty());
  return framework ? target.planes.framework : target.planes.agent;
}

v1::CapturePlan CaptureAttempt::PlanFor(const Member& member) const {
  v1::CapturePlan plan;
  const Nanos offset = member.result.offset;
  plan.set_capture_id(result_.capture_id);
  plan.set_request(spec_.request);
  plan.set_instant_ns(ToUnixNanos(result_.plan->instant + offset));
  plan.set_duration_ns(spec_.duration.count());
  plan.set_guard_ns(result_.plan->guard.count());
  plan.set_clock_offset_ns(offset.count());
  plan.set_clock_error_ns(member.result.error.value_or(Nanos{-1}).count());
  plan.set_wall_less_monotonic_ns(member.result.wall_less_monotonic.count());
  *plan.mutable_tracers() = spec_.tracers;
  plan.set_source(spec_.source);
  plan.set_logdir(spec_.logdir);
  plan.set_run(result_.run);
  plan.set_worker(member.result.target.file);
  plan.set_deadline_ns(ToUnixNanos(deadline_ + offset));
  plan.set_max_bytes(spec_.max_bytes);
  plan.set_abort_memory_percent(spec_.abort_memory_percent);
  plan.set_abort_slowdown_percent(spec_.abort_slowdown_percent);
  plan.set_expects_device(ExpectsDevice(member));
  plan.set_container(member.result.target.only_container);
  plan.set_discard_late(spec_.on_late_start == OnLateStart::kDiscard);
  return plan;
}

void CaptureAttempt::OnArmed(std::size_t index, absl::StatusOr<v1::ArmResponse> answer) {
  Member& member = members_[index];
  --arms_in_flight_;
  member.answered = true;
  if (!answer.ok()) {
    // It may have heard us all the same; whoever is not counted must not record.
    TellCancel(index, "its answer came too late");
    if (!member.ended)
      EndMember(index, OutcomeOfCall(answer.status()), StrCat("arming: ", Words(answer.status())));
  } else if (!answer->accepted()) {
    if (!member.ended) EndMember(index, static_cast<Outcome>(answer->refusal()), answer->message());
  } else {
    member.last_contact = Now();
    member.result.armed = true;
    member.result.report = std::move(*answer->mutable_report());
    if (member.ended)
      TellCancel(index, cancel_reason_);  // Called off while its answer was on the way.
  }
  if (!cancel_reason_.empty()) return MaybeConclude();
  if (AllAnswered()) AllArmed();
}

void CaptureAttempt::AllArmed() {
  const std::size_t armed = CountArmed();
  if (armed < Wanted() || armed == 0) {
    return CallOff(StrCat("only ", armed, " of ", members_.size(),
                          " workers could be armed in time, at least ", Wanted(), " wanted"));
  }
  Enter(Phase::kDelay);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].result.armed) Watch(i);
  }
  const auto at = [this](WallTime time, Phase phase) {
    deps_.executor.PostAfter(Until(time), Task([phase](CaptureAttempt& self) {
                               if (self.phase() < phase) self.Enter(phase);
                             }));
  };
  at(result_.plan->instant - result_.plan->guard, Phase::kRecording);
  at(Recorded(), Phase::kCollecting);
  deps_.executor.PostAfter(Until(deadline_ + kCancelGrace),
                           Task([](CaptureAttempt& self) { self.GiveUpOnStragglers(); }));
}

void CaptureAttempt::Watch(std::size_t index) {
  Member& member = members_[index];
  if (member.ended) return;
  auto mailbox = std::make_shared<Mailbox>();
  const auto deliver = [weak = weak_from_this(), &executor = deps_.executor, index,
                        mailbox](v1::Report report) {
    {
      MutexLock lock(&mailbox->mutex);
      mailbox->replaced += mailbox->newest ? 1 : 0;
      const bool posted = mailbox->newest.has_value();
      mailbox->newest = std::move(report);
      if (posted) return;
    }
    executor.Post([weak, index, mailbox] {
      if (const auto self = weak.lock()) self->OnReport(index, *mailbox);
    });
  };
  member.watch = member.worker->Watch(result_.capture_id, deliver,
                                      OnExecutor(&CaptureAttempt::OnWatchEnded, index));
}

void CaptureAttempt::OnReport(std::size_t index, Mailbox& mailbox) {
  v1::Report report;
  {
    MutexLock lock(&mailbox.mutex);
    report = *std::exchange(mailbox.newest, std::nullopt);
    result_.reports_replaced += std::exchange(mailbox.replaced, 0);
  }
  Member& member = members_[index];
  if (member.ended) return;
  member.last_contact = Now();
  member.broken = 0;
  member.result.report = std::move(report);
  if (member.result.report.state() == v1::DONE) {
    const v1::Report& last = member.result.report;
    EndMember(index, static_cast<Outcome>(last.outcome()), last.message());
    MaybeConclude();
  }
}

void CaptureAttempt::OnWatchEnded(std::size_t index, absl::Status status) {
  Member& member = members_[index];
  if (member.ended) return;
  const WallTime now = Now();
  if (absl::IsNotFound(status)) {
    EndMember(index, Outcome::kWorkerLost,
              "the sidecar was restarted and has forgotten the capture");
    return MaybeConclude();
  }
  if (absl::IsDataLoss(status)) {
    // It would do so again; what it records is told to end.
    TellCancel(index, Words(status));
    EndMember(index, Outcome::kWorkerLost, Words(status));
    return MaybeConclude();
  }
  if (now > std::max(member.last_contact, Recorded()) + kLostAfter) {
    EndMember(index, Outcome::kWorkerLost,
              StrCat("the sidecar cannot be reached since ",
                     FormatDuration(now - member.last_contact), ": ", Words(status)));
    return MaybeConclude();
  }
  const Nanos delay =
      std::min<Nanos>(milliseconds(100) * (1 << std::min(member.broken++, 4)), seconds(1));
  deps_.executor.PostAfter(delay, Task([index](CaptureAttempt& self) { self.Watch(index); }));
}

void CaptureAttempt::EndMember(std::size_t index, Outcome outcome, std::string message) {
  Member& member = members_[index];
  member.ended = true;
  member.result.ready = false;
  member.result.outcome = outcome;
  member.result.message = std::move(message);
  member.watch.reset();
}

void CaptureAttempt::TellCancel(std::size_t index, const std::string& reason) {
  v1::CancelRequest request;
  request.set_reason(reason);
  Tell(index, std::move(request));
}

void CaptureAttempt::Tell(std::size_t index, v1::CancelRequest request) {
  ++cancels_in_flight_;
  request.set_capture_id(result_.capture_id);
  members_[index].worker->Cancel(request, kCancelTimeout,
                                 OnExecutor(&CaptureAttempt::OnCancelled, index));
}

void CaptureAttempt::OnCancelled(std::size_t, absl::StatusOr<v1::CancelResponse>) {
  --cancels_in_flight_;
  MaybeConclude();
}

// Ends the attempt before it records: whoever is armed is told to forget it.
void CaptureAttempt::CallOff(std::string reason) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.ended) continue;
    if (member.result.armed) TellCancel(i, reason);
    EndMember(i, Outcome::kCancelled, StrCat("called off: ", reason));
  }
  MaybeConclude();
}

void CaptureAttempt::Cancel(std::string reason) {
  // Holds us until it has run: whoever cancels often lets go of us next, and the workers must hear
  // of it all the same.
  deps_.executor.Post([self = shared_from_this(), reason = std::move(reason)] {
    self->Do([&] { self->OnCancel(reason); });
  });
}

void CaptureAttempt::OnCancel(const std::string& reason) {
  if (!cancel_reason_.empty() || phase() >= Phase::kPublishing) return;
  cancel_reason_ = reason;
  result_.cancelled = true;
  if (phase() < Phase::kDelay) return CallOff(reason);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].ended) TellCancel(i, reason);
  }
  // Their last reports say how far they got; whoever does not answer is not waited for.
  deps_.executor.PostAfter(kCancelGrace,
                           Task([](CaptureAttempt& self) { self.GiveUpOnStragglers(); }));
}

void CaptureAttempt::EndEarly() {
  deps_.executor.Post(Task([](CaptureAttempt& self) {
    if (self.ended_early_ || self.phase() >= Phase::kPublishing) return;
    if (self.phase() < Phase::kRecording) return self.Cancel("ended before it recorded");
    self.ended_early_ = true;
    for (std::size_t i = 0; i < self.members_.size(); ++i) {
      if (self.members_[i].ended) continue;
      v1::CancelRequest request;
      request.set_keep(true);
      self.Tell(i, std::move(request));
    }
    if (self.phase() < Phase::kCollecting) self.Enter(Phase::kCollecting);
  }));
}

void CaptureAttempt::GiveUpOnStragglers() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.ended) continue;
    TellCancel(i, "its deadline has passed");
    if (result_.cancelled)
      EndMember(i, Outcome::kCancelled, cancel_reason_);
    else
      EndMember(i, Outcome::kDeadlineExceeded, "no final report before the deadline");
  }
  MaybeConclude();
}

void CaptureAttempt::MaybeConclude() {
  if (phase() >= Phase::kPublishing) return;
  if (arms_in_flight_ + cancels_in_flight_ > 0 ||
      !std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.ended; })) {
    return Enter(phase());
  }
  if (wants_evidence_) return;
  wants_evidence_ =
      deps_.asks_for_evidence && !result_.cancelled &&
      std::any_of(members_.begin(), members_.end(), [](const Member& member) {
        return !member.result.target.pod.empty() && WantsPodEvidence(member.result.outcome);
      });
  if (!wants_evidence_) return Conclude();
  Enter(phase());
  deps_.executor.PostAfter(kEvidenceTimeout,
                           Task([](CaptureAttempt& self) { self.TellEvidence({}); }));
}

void CaptureAttempt::TellEvidence(std::map<std::string, std::string> evidence) {
  deps_.executor.Post(Task([evidence = std::move(evidence)](CaptureAttempt& self) {
    if (!std::exchange(self.wants_evidence_, false)) return;
    for (Member& member : self.members_) {
      const auto found = evidence.find(member.result.target.name);
      if (found == evidence.end() || !WantsPodEvidence(member.result.outcome)) continue;
      std::string& message = member.result.message;
      message = StrCat(found->second, message.empty() ? "" : "; ", message);
    }
    self.Conclude();
  }));
}

void CaptureAttempt::Conclude() {
  for (Member& member : members_) result_.workers.push_back(member.result);
  if (ended_early_) result_.duration = LongestRecorded(result_.workers);
  if (result_.cancelled) {
    result_.reason = "Cancelled";
    result_.message = cancel_reason_;
  }
  strobe::Conclude(spec_, result_);
  Enter(Phase::kPublishing);
  // Only workers that wrote a trace are asked: the run exists, and their identity can write to it.
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].result.report.url().empty()) candidates.push_back(i);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [this](std::size_t a, std::size_t b) {
    return Describe(members_[a].result.outcome).badness >
           Describe(members_[b].result.outcome).badness;
  });
  const absl::StatusOr<std::string> manifest = ManifestJson(ComposeManifest(spec_, result_));
  if (!manifest.ok()) {
    result_.manifest_error = Words(manifest.status());
    return Finish();
  }
  v1::PublishRequest request;
  request.set_logdir(spec_.logdir);
  request.set_run(result_.run);
  request.set_manifest(*manifest);
  publish_by_ = deps_.clock.MonoNow() + kPublishLimit;
  Publish(request, std::move(candidates));  // Taken from the back: the best first.
}

void CaptureAttempt::Publish(const v1::PublishRequest& request,
                             std::vector<std::size_t> candidates) {
  if (candidates.empty() || deps_.clock.MonoNow() >= publish_by_) return Finish();
  const std::size_t index = candidates.back();
  candidates.pop_back();
  const auto answered = [weak = weak_from_this(), &executor = deps_.executor, request,
                         candidates](absl::StatusOr<v1::PublishResponse> answer) {
    executor.Post([weak, request, candidates, answer = std::move(answer)] {
      if (const auto self = weak.lock())
        self->Do([&] { self->OnPublished(request, candidates, answer); });
    });
  };
  members_[index].worker->Publish(request, kPublishTimeout, answered);
}

void CaptureAttempt::OnPublished(const v1::PublishRequest& request,
                                 const std::vector<std::size_t>& candidates,
                                 const absl::StatusOr<v1::PublishResponse>& answer) {
  if (phase() == Phase::kDone) return;
  if (answer.ok()) {
    result_.manifest_url = answer->url();
    return Finish();
  }
  result_.manifest_error = Words(answer.status());
  // Somebody else's manifest is there for the others too.
  if (absl::IsAlreadyExists(answer.status())) return Finish();
  Publish(request, candidates);
}

void CaptureAttempt::Finish() {
  if (!result_.manifest_url.empty()) result_.manifest_error.clear();
  for (Member& member : members_) member.worker.reset();
  Enter(Phase::kDone);
}

}  // namespace strobe
