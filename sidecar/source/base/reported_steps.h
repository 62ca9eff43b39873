// The training steps that programs tell, in memory that the sidecar reads or by annotations.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/wire/layout.h"
#include "common/base/clock.h"
#include "sidecar/capture/ports.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::source {

inline constexpr std::size_t kMaxReportedLoops = 64;

// Adds the loops of one program, up to kMaxReportedLoops in all. The program may write anything
// into them. `who` has the process, source and teller for each of them. `wall_minus_monotonic_ns`
// converts the program's times.
void AddReportedSteps(const wire::StepLoops& loops, const v1::StepPace& who,
                      std::int64_t wall_minus_monotonic_ns, std::vector<v1::StepPace>& told);
// `who` for a program with the agent.
v1::StepPace ReportedByAgent(std::string process);

// Adds the steps of a loop that have ended since the last call, for the job guard. `told_until_ns`
// is kept between the calls, and 0 before the first one.
void AddEndedSteps(const wire::StepLoop& loop, std::string_view program,
                   std::uint64_t& told_until_ns, session::JobSigns& signs);

// Whether the program tells steps of the loop.
bool TellsSteps(const wire::StepLoops& loops, std::string_view loop);

struct AnnotatedStep {
  std::string_view loop{};
  std::optional<std::int64_t> number{};  // None if it is no whole number.
};
// The step that an annotation marks: one with step_num. None if it marks no step.
std::optional<AnnotatedStep> StepOf(std::string_view annotation);

}  // namespace strobe::source
