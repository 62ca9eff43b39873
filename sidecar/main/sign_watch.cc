#include "sidecar/main/sign_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "common/base/duration.h"
#include "common/base/guard.h"
#include "common/base/log.h"

namespace strobe {

SignWatch::SignWatch(const Clock& clock, session::Source& source,
                     std::unique_ptr<source::ReportedMemory> memory, enroll::SignTeller teller)
    : clock_(clock),
      source_(source),
      memory_(std::move(memory)),
      teller_(std::move(teller)),
      thread_([this] { RunThread("signs", [this] { Run(); }); }) {}

SignWatch::~SignWatch() {
  stop_.Cancel();
  thread_.join();
}

void SignWatch::Run() {
  Nanos wait{0};
  while (!stop_.WaitFor(wait)) {
    // An error in one look must not end the later ones.
    (void)RunGuarded("signs", [this] {
      if (!rules_.empty()) Look();
      if (clock_.MonoNow() >= teller_.next()) Tell();
    });
    const Nanos until_next = std::max<Nanos>(teller_.next() - clock_.MonoNow(), Nanos{0});
    wait = rules_.empty() ? until_next : session::kLookForSigns;
  }
}

void SignWatch::Look() {
  const bool steps = rules_.wants(v1::SIGN_STEPS_SLOWER) || rules_.wants(v1::SIGN_NO_STEP) ||
                     rules_.wants(v1::SIGN_SLOWER_THAN_OTHERS) || rules_.wants(v1::SIGN_STALLED);
  std::vector<v1::StepPace> told = steps ? source_.Steps() : std::vector<v1::StepPace>();
  std::vector<session::EngineReading> engines;
  if (steps || !engine_rules_.empty()) engines = source_.Engines();
  session::RemoveIterations(engines, told);
  std::optional<session::SeenMemory> memory;
  if (memory_ != nullptr && rules_.wants(v1::SIGN_MEMORY_NEAR_LIMIT)) memory = memory_->Look();
  std::vector<session::FoundSign> all =
      rules_.Look(told, memory, clock_.MonoNow(), clock_.WallNow());
  std::ranges::move(engine_rules_.Look(engines, clock_.MonoNow()), std::back_inserter(all));
  for (session::FoundSign& found : all) {
    LogInfo("a sign was found", {{"rule", found.sign.rule()},
                                 {"process", found.sign.process()},
                                 {"loop", found.sign.loop()},
                                 {"step", FormatDuration(Nanos{found.sign.step_ns()})},
                                 {"usual", FormatDuration(Nanos{found.sign.usual_step_ns()})}});
    teller_.Add(std::move(found.sign), found.began);
  }
}

void SignWatch::Tell() {
  std::vector<v1::StepTime> times = rules_.TakeStepTimes();
  if (!rules_.wants(v1::SIGN_SLOWER_THAN_OTHERS)) times.clear();
  const absl::StatusOr<v1::TellSignsResponse> answer = teller_.Tell(times);
  if (answer.ok()) {
    const std::vector<v1::SignRule> rules(answer->rules().begin(), answer->rules().end());
    rules_.Set(rules);
    engine_rules_.Set(rules);
  } else if (!std::exchange(complained_, true)) {
    LogWarning("signs cannot be reported to the operator yet",
               {{"error", MessageOf(answer.status())}});
  }
  if (answer.ok()) complained_ = false;
}

}  // namespace strobe
