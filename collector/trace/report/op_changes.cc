#include "collector/trace/report/op_changes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "common/base/enum_names.h"

namespace strobe::report {
namespace {

// The probability that chance alone makes any operation of two equal runs change. It is shared by
// all operations that are large enough to be told (Bonferroni).
constexpr double kOpsFalseAlarm = 0.02;
constexpr double kRareCalls = 0.5;
// "No change" is decided only if a change by this share of an operation would have been noticed.
constexpr double kTooWideOp = 0.5;
// With fewer workers, their differences tell too little about the noise of an operation.
constexpr std::size_t kFewWorkers = 3;

// The values of one operation in one run, one for each of the run's workers.
struct RunOp {
  std::vector<double> self{};
  std::size_t workers = 0;  // The number of workers on which it was found.
  double mean = 0, calls = 0, deviation = 0;
  double bias = 0;      // By how much the mean can be wrong because of incomplete steps.
  double unlisted = 0;  // By how much it can be too small because small operations are left out.
};

RunOp ValuesOf(const RunSummary& run, const OpSummary* op) {
  RunOp result{.self = std::vector<double>(run.workers.size())};
  std::vector<bool> found(run.workers.size());
  if (op != nullptr) {
    result.workers = op->workers.size();
    for (const WorkerOp& worker : op->workers) {
      const SummaryWorker& facts = run.workers[worker.worker];
      found[worker.worker] = true;
      result.self[worker.worker] = worker.self;
      result.mean += worker.self;
      result.calls += worker.calls;
      result.deviation += worker.deviation;
      result.bias += std::min(worker.self * facts.edges, facts.outside);
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) result.unlisted += run.workers[i].unlisted;
  }
  const auto n = static_cast<double>(std::max<std::size_t>(run.workers.size(), 1));
  for (double* sum :
       {&result.mean, &result.calls, &result.deviation, &result.bias, &result.unlisted})
    *sum /= n;
  return result;
}

void ScaleBy(double factor, RunOp& op) {
  for (double& value : op.self) value *= factor;
  op.mean *= factor;
  op.calls *= factor;
  op.deviation *= factor;
  op.bias = 0;
}

// Incomplete steps change how many calls a step seems to have, but not how long a call takes. If
// the runs' calls cannot be told apart, both have made the same number.
void JoinCalls(double edges, RunOp& before, RunOp& after) {
  if (before.calls <= 0 || after.calls <= 0) return;
  const double larger = std::max(before.calls, after.calls);
  if (std::fabs(before.calls - after.calls) > edges * larger) return;
  const double calls = (before.calls + after.calls) / 2;
  ScaleBy(calls / before.calls, before);
  ScaleBy(calls / after.calls, after);
}

double LargestEdges(const RunSummary& run) {
  double edges = 0;
  for (const SummaryWorker& worker : run.workers) edges = std::max(edges, worker.edges);
  return edges;
}

double MeanSquare(const std::vector<double>& values, double mean) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto n = static_cast<double>(values.size());
  return squares / (n - 1) / n;
}

// For each worker of `before`, the one of `after` with the same rank; empty unless all ranks of
// both runs are told and the same.
std::vector<std::uint32_t> PairsOf(const RunSummary& before, const RunSummary& after) {
  if (before.workers.size() != after.workers.size()) return {};
  std::map<std::uint32_t, std::uint32_t> by_rank;
  for (std::uint32_t i = 0; i < after.workers.size(); ++i) {
    if (!after.workers[i].rank || !by_rank.try_emplace(*after.workers[i].rank, i).second) return {};
  }
  std::vector<std::uint32_t> pairs;
  for (const SummaryWorker& worker : before.workers) {
    const auto found = worker.rank ? by_rank.find(*worker.rank) : by_rank.end();
    if (found == by_rank.end()) return {};
    pairs.push_back(found->second);
    by_rank.erase(found);
  }
  return pairs;
}

// Errors that all workers of a run have in common do not show as differences between workers. They
// are taken from how the run's steps vary, for all work of a kind together.
class CommonErrors {
 public:
  explicit CommonErrors(const RunSummary& run) : step_(RelativeOf(run.step_ns)) {
    for (std::size_t i = 0; i < kStepParts; ++i) parts_[i] = RelativeOf(run.parts_ns[i]);
  }

  Typical Of(digest::WorkKind kind) const {
    StepPart part = StepPart::kCompute;
    if (kind == digest::WorkKind::kCommunication) part = StepPart::kCommunication;
    if (kind == digest::WorkKind::kCopy) part = StepPart::kExposedCopies;
    const Typical& of_part = parts_[static_cast<std::size_t>(part)];
    return of_part.mean > 0 && of_part.degrees > 0 ? of_part : step_;
  }

 private:
  // The error as a share of the mean.
  static Typical RelativeOf(const std::vector<double>& values) {
    Typical typical = TypicalOf(values);
    typical.error = typical.mean > 0 ? typical.error / typical.mean : 0;
    return typical;
  }

  Typical step_{};
  std::array<Typical, kStepParts> parts_{};
};

class OpComparer {
 public:
  OpComparer(const RunSummary& before, const RunSummary& after, double step_ns, bool decidable)
      : before_(before),
        after_(after),
        decidable_(decidable),
        pairs_(PairsOf(before, after)),
        edges_(LargestEdges(before) + LargestEdges(after)),
        before_errors_(before),
        after_errors_(after),
        test_{.margin = kMinOpShare * step_ns,
              .too_wide = kTooWideOp,
              .decisive = 2 * kMinOpShare * step_ns} {}

  std::vector<OpChange> Compare() {
    std::map<std::pair<digest::WorkKind, std::string_view>,
             std::pair<const OpSummary*, const OpSummary*>>
        joined;
    for (const OpSummary& op : before_.ops) joined[{op.kind, op.name}].first = &op;
    for (const OpSummary& op : after_.ops) joined[{op.kind, op.name}].second = &op;
    std::size_t large = 0;
    for (const auto& [key, pair] : joined) {
      const auto is_large = [&](const RunSummary& run, const OpSummary* op) {
        return ValuesOf(run, op).mean > test_.margin;
      };
      large += is_large(before_, pair.first) || is_large(after_, pair.second);
    }
    test_.false_alarm = kOpsFalseAlarm / static_cast<double>(std::max<std::size_t>(large, 1));
    std::vector<OpChange> changes;
    for (const auto& [key, pair] : joined) {
      OpChange& change =
          changes.emplace_back(OpChange{.kind = key.first, .name = std::string(key.second)});
      Judge(ValuesOf(before_, pair.first), ValuesOf(after_, pair.second), change);
    }
    std::stable_sort(changes.begin(), changes.end(), [](const OpChange& a, const OpChange& b) {
      return std::tuple(!IsChange(a.verdict), -std::fabs(a.self.difference())) <
             std::tuple(!IsChange(b.verdict), -std::fabs(b.self.difference()));
    });
    return changes;
  }

 private:
  void Judge(RunOp before, RunOp after, OpChange& change) const {
    JoinCalls(edges_, before, after);
    change.before_calls = before.calls;
    change.after_calls = after.calls;
    change.before_workers = before.workers;
    change.after_workers = after.workers;
    const Typical from = WithErrors(before, before_errors_.Of(change.kind));
    Typical to = WithErrors(after, after_errors_.Of(change.kind));
    if (!pairs_.empty() && pairs_.size() >= 2) PairWorkers(before, after, to);
    const double bias = before.bias + after.bias + std::max(before.unlisted, after.unlisted);
    change.self = CompareTypical(from, to, bias, test_);
    change.self.before_n = change.before_workers;
    change.self.after_n = change.after_workers;
    if (!decidable_) change.self.verdict = ChangeVerdict::kNotDecidable;
    change.verdict = VerdictOf(change);
  }

  // The mean with its error. Workers vary independently of each other, apart from the errors that
  // they have in common.
  Typical WithErrors(const RunOp& op, const Typical& common) const {
    const std::size_t n = op.self.size();
    double squares = common.error * op.mean * common.error * op.mean;
    double degrees = std::max(common.degrees, 1.0);
    if (n < kFewWorkers) squares += op.deviation * op.deviation;
    if (pairs_.size() < 2 && n >= 2) {
      squares += MeanSquare(op.self, op.mean);
      if (n >= kFewWorkers) degrees = std::min(degrees, static_cast<double>(n - 1));
    }
    return {.mean = op.mean, .error = std::sqrt(squares), .degrees = degrees, .n = n};
  }

  // Compares each rank with itself, because it does the same work in both runs. So only the
  // variation of the differences counts, and not that ranks have different work, as stages of a
  // pipeline do.
  void PairWorkers(const RunOp& before, const RunOp& after, Typical& to) const {
    std::vector<double> differences;
    double mean = 0;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      differences.push_back(after.self[pairs_[i]] - before.self[i]);
      mean += differences.back() / static_cast<double>(pairs_.size());
    }
    to.error = std::hypot(to.error, std::sqrt(MeanSquare(differences, mean)));
    if (pairs_.size() >= kFewWorkers)
      to.degrees = std::min(to.degrees, static_cast<double>(pairs_.size() - 1));
  }

  static OpVerdict VerdictOf(const OpChange& change) {
    if (change.self.verdict == ChangeVerdict::kNotDecidable) return OpVerdict::kNotDecidable;
    if (std::max(change.before_calls, change.after_calls) < kRareCalls) return OpVerdict::kRare;
    if (change.self.verdict == ChangeVerdict::kNoChange) return OpVerdict::kNoChange;
    if (change.before_workers == 0) return OpVerdict::kNew;
    if (change.after_workers == 0) return OpVerdict::kGone;
    return change.self.verdict == ChangeVerdict::kLonger ? OpVerdict::kLonger : OpVerdict::kShorter;
  }

  const RunSummary& before_;
  const RunSummary& after_;
  const bool decidable_;
  const std::vector<std::uint32_t> pairs_;
  const double edges_;
  const CommonErrors before_errors_, after_errors_;
  ChangeTest test_{};
};

}  // namespace

std::string_view VerdictName(OpVerdict verdict) {
  static constexpr EnumNames<OpVerdict, 7> kNames({{OpVerdict::kLonger, "longer"},
                                                   {OpVerdict::kShorter, "shorter"},
                                                   {OpVerdict::kNew, "new"},
                                                   {OpVerdict::kGone, "gone"},
                                                   {OpVerdict::kNoChange, "no change"},
                                                   {OpVerdict::kRare, "rare"},
                                                   {OpVerdict::kNotDecidable, "not decidable"}});
  return kNames.Of(verdict);
}

std::vector<OpChange> CompareOps(const RunSummary& before, const RunSummary& after, double step_ns,
                                 bool decidable) {
  return OpComparer(before, after, step_ns, decidable).Compare();
}

}  // namespace strobe::report
