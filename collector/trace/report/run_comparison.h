// What changed between two runs: in the steps, in what they went into, and in the operations. Pure.
// README.md tells how chance is excluded.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collector/trace/report/op_changes.h"
#include "collector/trace/report/run_summary.h"
#include "collector/trace/report/series_change.h"

namespace strobe::report {

struct PartChange {
  StepPart part = StepPart::kCompute;
  Change time{};
};

struct ComparedRun {
  std::size_t workers = 0, steps = 0;  // Steps that are compared.
  std::string loop{};
  std::vector<double> step_ns{};  // Each step's duration: the median over the workers.
};

struct RunComparison {
  ComparedRun before{}, after{};
  // Times are in ns of a step or, if a run has no steps, in ns of a second of recording.
  bool of_steps = false;
  Change step{};                    // Zeros without steps.
  std::vector<PartChange> parts{};  // Only parts that both runs tell.
  std::vector<OpChange> ops{};      // As CompareOps returns them.
  // What cannot be known, and what else differs between the runs, in sentences.
  std::vector<std::string> unknown{};
};

// A smaller share of a step is not reported, even if it is certain: runs of one program on other
// machines differ by about as much.
inline constexpr double kMinStepShare = 0.01;

RunComparison CompareRuns(const RunSummary& before, const RunSummary& after);

// In one line: "steps take 12.4ms longer (13%), 94ms -> 106ms: input".
std::string Headline(const RunComparison& comparison);

}  // namespace strobe::report
