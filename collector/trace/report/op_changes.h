// Which operations take more or less of a step in one run than in another. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collector/trace/report/run_summary.h"
#include "collector/trace/report/series_change.h"

namespace strobe::report {

enum class OpVerdict : std::uint8_t {
  kLonger,
  kShorter,
  kNew,  // Not in the run before, and too long to have been left out there.
  kGone,
  kNoChange,
  kRare,  // It runs in less than every second step of both runs, so chance decides how often.
  kNotDecidable,
};
// "longer", "shorter", "new", "gone", "no change", "rare" or "not decidable".
std::string_view VerdictName(OpVerdict verdict);
inline bool IsChange(OpVerdict verdict) { return verdict <= OpVerdict::kGone; }

struct OpChange {
  digest::WorkKind kind = digest::WorkKind::kCompute;
  std::string name{};
  Change self{};  // How its self time in a step changed, in the mean of the workers.
  double before_calls = 0, after_calls = 0;
  std::size_t before_workers = 0, after_workers = 0;  // The numbers of workers that ran it.
  OpVerdict verdict = OpVerdict::kNotDecidable;
};

// A smaller share of a step is not reported for an operation, even if it is certain.
inline constexpr double kMinOpShare = 0.005;

// All operations of both runs, those that changed first, each with the largest difference first.
// `step_ns`: the duration of a step before. Nothing is decided unless `decidable`.
std::vector<OpChange> CompareOps(const RunSummary& before, const RunSummary& after, double step_ns,
                                 bool decidable);

}  // namespace strobe::report
