#include "sidecar/source/base/process_reports.h"

#include <algorithm>
#include <utility>

#include "collector/trace/xplane/edit.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"

namespace strobe::source {
namespace {

using session::Recording;

Outcome OutcomeOf(const v1::ProcessReport& process) {
  return static_cast<Outcome>(process.outcome());
}

bool Worse(Outcome a, Outcome b) { return Describe(a).badness > Describe(b).badness; }

void Worsen(Outcome outcome, std::string message, Recording& recording) {
  if (!Worse(outcome, recording.outcome)) return;
  recording.outcome = outcome;
  recording.message = std::move(message);
}

std::string Describe(const v1::ProcessReport& process) {
  if (process.message().empty()) return StrCat(process.name(), ": ", Name(OutcomeOf(process)));
  if (Contains(process.message(), process.name())) return process.message();
  return StrCat(process.name(), ": ", process.message());
}

// Injection configures one server address in every pod, whether the trainer has a server or not. If
// the agent records instead, nothing is missing. Several addresses are configured only by users who
// have several servers.
bool IsOnlyTheDefault(const Recording& framework) {
  return framework.outcome == Outcome::kNoSource && framework.processes.size() <= 1;
}

}  // namespace

bool IsLeftOut(const v1::ProcessReport& process) { return process.note().starts_with(kLeftOut); }

void ConcludeProcesses(Recording& recording) {
  const auto& processes = recording.processes;
  const auto worst = std::max_element(
      processes.begin(), processes.end(),
      [](const auto& a, const auto& b) { return Worse(OutcomeOf(b), OutcomeOf(a)); });
  if (worst == processes.end() || OutcomeOf(*worst) == Outcome::kOk) return;
  const auto left_out = std::count_if(processes.begin(), processes.end(), IsLeftOut);
  const auto all = static_cast<std::ptrdiff_t>(processes.size()) - left_out;
  const auto good = std::count_if(processes.begin(), processes.end(), [](const auto& process) {
    return OutcomeOf(process) == Outcome::kOk && !IsLeftOut(process);
  });
  if (Worse(recording.outcome, OutcomeOf(*worst))) return;
  recording.outcome = OutcomeOf(*worst);
  recording.message =
      all == 1
          ? Describe(*worst)
          : StrCat(good, " of ", all, " processes were recorded as requested; ", Describe(*worst));
}

Recording JoinRecordings(Recording framework, Recording other, std::string_view source) {
  if (IsOnlyTheDefault(framework)) return other;
  // A program with the agent that ended before it could be recorded is not a fault.
  if (other.outcome == Outcome::kNoSource && other.processes.empty()) other.outcome = Outcome::kOk;
  Recording joined = std::move(framework);
  Worsen(other.outcome, std::move(other.message), joined);
  std::move(other.processes.begin(), other.processes.end(), std::back_inserter(joined.processes));
  std::move(other.originals.begin(), other.originals.end(), std::back_inserter(joined.originals));
  for (const auto& [reason, events] : other.dropped) joined.dropped[reason] += events;
  joined.has_torch_options = joined.has_torch_options || other.has_torch_options;
  if (joined.xspace.empty()) {
    joined.clock_set_at_start = other.clock_set_at_start;
    joined.clock_set_at_stop = other.clock_set_at_stop;
  }
  joined.stepping_processes += other.stepping_processes;
  ConcludeProcesses(joined);
  if (other.xspace.empty()) return joined;
  const absl::Status status = xplane::AppendXSpace(other.xspace, source, joined.xspace);
  if (!status.ok())
    Worsen(Outcome::kProfilerStartFailed,
           StrCat("the recording of ", source, " is not a valid trace: ", status.message()),
           joined);
  return joined;
}

}  // namespace strobe::source
