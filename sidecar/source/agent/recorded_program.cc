#include "sidecar/source/agent/recorded_program.h"

#include <algorithm>
#include <utility>

#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "sidecar/source/base/recording_times.h"
#include "sidecar/source/base/reported_steps.h"

namespace strobe::source {
namespace {

ProgramIdentity IdentityOf(const wire::RingFile& file, std::uint64_t now_ns) {
  const wire::FileHeader& header = *file.header();
  const std::uint32_t pid = header.pid;
  return {.pid = pid,
          .born_ns = std::min(header.born_ns, now_ns),
          .process_began = header.process_began,
          .label = StrCat(CutUtf8(file.ProgramName(), wire::kProgramBytes), " ", pid),
          .forked_from = file.ForkedFrom()};
}

}  // namespace

RecordedProgram::RecordedProgram(GuardedRings rings, From from, std::uint32_t level)
    : rings_(std::move(rings)),
      records_(file_, from, level),
      identity_(IdentityOf(file_, records_.begin_ns())),
      rank_(RankIn(*file_.header())),
      on_since_birth_(from == From::kStart && CaptureWish(file_) == level),
      lived_(from == From::kStart || from == From::kEnded || file_.ProgramLives()),
      ended_before_(from == From::kEnded),
      seen_ns_(static_cast<std::int64_t>(records_.begin_ns())),
      switch_(file_, level) {}

void RecordedProgram::SwitchOn(std::uint32_t filter) {
  if (settled_ || ended_before_) return;
  std::optional<std::int64_t> since_ns;
  if (on_since_birth_) since_ns = static_cast<std::int64_t>(identity_.born_ns);
  switch_.On(filter, since_ns);
}

void RecordedProgram::SwitchOff() {
  if (settled_) return;
  switch_.Check();
  if (switch_.is_on()) records_.NoteEnd();
  switch_.Off();
  records_.Disarm();
  file_.WakeProgram();
}

bool RecordedProgram::Lives() {
  if (settled_) return false;
  const std::int64_t now = MonotonicNow();
  const bool lives = file_.ProgramLives();
  if (lives) seen_ns_ = now;
  if (!lives && gone_ns_ == 0) gone_ns_ = MonotonicNow();
  return lives;
}

void RecordedProgram::Settle(bool parent_lives, bool keep, wire::RecordBuffer& buffer,
                             std::uint64_t& budget) {
  if (settled_) return;
  Drain(buffer, budget);
  CountUnseen();
  settled_ = Facts();
  settled_->parent_lives = parent_lives;
  if (!file_.HasHeirs() && !keep) RemoveRings(file_.path());
  records_.Close();
  rings_ = {};
}

ProgramFacts RecordedProgram::Facts() {
  if (settled_) return *settled_;
  const wire::FileHeader& from = header();
  ProgramFacts facts{.label = identity_.label,
                     .born_ns = static_cast<std::int64_t>(identity_.born_ns),
                     .on_ns = switch_.on_ns(),
                     .off_ns = switch_.off_ns(),
                     .lives = Lives(),
                     .seen_ns = seen_ns_,
                     .gone_ns = gone_ns_,
                     .ended_before = ended_before_,
                     .ever_recorded = from.rings.load(std::memory_order_relaxed) > 0,
                     .file_damaged = rings_.guard.damaged()};
  facts.ended_cleanly = !facts.lives && from.has_exited.load(std::memory_order_acquire) != 0;
  // It ended after it was last seen to run, whatever its header contains.
  facts.ended_ns =
      std::clamp(static_cast<std::int64_t>(from.ended_ns.load(std::memory_order_relaxed)),
                 switch_.on_ns(), MonotonicNow());
  facts.cuda_since_ns =
      static_cast<std::int64_t>(from.cuda_since_ns.load(std::memory_order_relaxed));
  records_.AddTo(facts);
  return facts;
}

void RecordedProgram::CountUnseen() {
  if (!settled_) records_.CountUnseen(Lives());
}

double RecordedProgram::Drain(wire::RecordBuffer& buffer, std::uint64_t& budget) {
  if (settled_) return 0;
  switch_.Check();
  return records_.Drain(switch_.is_on(), buffer, budget);
}

void RecordedProgram::AddSteps(std::int64_t wall_minus_monotonic_ns,
                               std::vector<v1::StepPace>& told) const {
  if (!settled_ && !ended_before_)
    AddReportedSteps(header().step_loops, ReportedByAgent(identity_.label), wall_minus_monotonic_ns,
                     told);
}

}  // namespace strobe::source
