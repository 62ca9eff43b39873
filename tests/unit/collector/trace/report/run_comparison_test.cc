#include "collector/trace/report/run_comparison.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "collector/trace/report/report_json.h"
#include "common/base/strings.h"
#include "tests/fakes/synthetic_run.h"

namespace strobe::report {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// Under the sanitizers a few cases reach all code.
#ifdef STROBE_SANITIZED
constexpr std::uint64_t kComparedCases = 12;
#else
constexpr std::uint64_t kComparedCases = 500;
#endif

RunSummary SummaryOf(const SyntheticRun& run) { return SummarizeRun(SimulateRun(run)); }

RunComparison Compared(const SyntheticRun& before, const SyntheticRun& after) {
  return CompareRuns(SummaryOf(before), SummaryOf(after));
}

const PartChange& PartOf(const RunComparison& comparison, StepPart part) {
  return *std::find_if(comparison.parts.begin(), comparison.parts.end(),
                       [&](const PartChange& change) { return change.part == part; });
}

const OpChange& OpOf(const RunComparison& comparison, std::string_view name) {
  return *std::find_if(comparison.ops.begin(), comparison.ops.end(),
                       [&](const OpChange& change) { return change.name == name; });
}

bool StepChanged(const RunComparison& comparison) {
  return comparison.step.verdict == ChangeVerdict::kLonger ||
         comparison.step.verdict == ChangeVerdict::kShorter;
}

std::vector<std::string> ChangedOps(const RunComparison& comparison) {
  std::vector<std::string> names;
  for (const OpChange& change : comparison.ops) {
    if (IsChange(change.verdict)) names.push_back(change.name);
  }
  return names;
}

TEST(CompareRuns, TellsALongerOperationInStepPartAndOps) {
  const RunComparison found = Compared({.seed = 1}, {.seed = 2, .factors = {{"gemm_large", 1.5}}});
  EXPECT_TRUE(found.of_steps);
  EXPECT_EQ(found.step.verdict, ChangeVerdict::kLonger);
  EXPECT_NEAR(found.step.difference() / 1e6, 10, 2);
  EXPECT_EQ(found.step.before_n, 20u);
  EXPECT_NEAR(PartOf(found, StepPart::kCompute).time.difference() / 1e6, 10, 1.5);
  EXPECT_EQ(PartOf(found, StepPart::kCompute).time.verdict, ChangeVerdict::kLonger);
  EXPECT_EQ(PartOf(found, StepPart::kInput).time.verdict, ChangeVerdict::kNoChange);
  EXPECT_THAT(ChangedOps(found), testing::ElementsAre("gemm_large"));
  EXPECT_EQ(found.ops.front().name, "gemm_large");
  EXPECT_NEAR(OpOf(found, "gemm_large").self.difference() / 1e6, 10, 1);
  EXPECT_THAT(Headline(found), AllOf(StartsWith("steps take "), HasSubstr(" longer (1"),
                                     testing::EndsWith(": compute")));
}

TEST(CompareRuns, TellsInputThatBecameSlower) {
  const RunComparison found = Compared({.seed = 3}, {.seed = 4, .input_ms = 16});
  EXPECT_EQ(PartOf(found, StepPart::kInput).time.verdict, ChangeVerdict::kLonger);
  EXPECT_EQ(PartOf(found, StepPart::kIdle).time.verdict, ChangeVerdict::kLonger);
  EXPECT_THAT(Headline(found), testing::EndsWith(": input")) << "and not that devices idled";
  EXPECT_THAT(ChangedOps(found), IsEmpty());
}

TEST(CompareRuns, TellsNewAndGoneOperations) {
  const SyntheticRun without{.seed = 5}, with{.seed = 6, .added = {{"cast", 3}}};
  const RunComparison added = Compared(without, with), removed = Compared(with, without);
  EXPECT_EQ(OpOf(added, "cast").verdict, OpVerdict::kNew);
  EXPECT_EQ(OpOf(removed, "cast").verdict, OpVerdict::kGone);
  EXPECT_NEAR(OpOf(added, "cast").self.after / 1e6, 3, 0.3);
  // Both lists are cut: it may have been there.
  std::vector<digest::Digest> cut = SimulateRun(without);
  for (digest::Digest& digest : cut) {
    digest.cuts.ops = 7;
    digest.ops.resize(3);
  }
  const RunComparison unknown = CompareRuns(SummarizeRun(cut), SummaryOf(with));
  EXPECT_FALSE(IsChange(OpOf(unknown, "cast").verdict));
}

TEST(CompareRuns, AnOperationOfSomeStepsOnlyIsRare) {
  std::vector<digest::Digest> digests = SimulateRun({.seed = 7});
  for (digest::Digest& digest : digests) {
    digest.names.emplace_back("checkpoint");
    digest.ops.push_back({.name = static_cast<std::uint32_t>(digest.names.size() - 1),
                          .count = 1,
                          .total_ns = 90'000'000,
                          .self_ns = 90'000'000});
  }
  const RunComparison found = CompareRuns(SummaryOf({.seed = 8}), SummarizeRun(digests));
  EXPECT_EQ(OpOf(found, "checkpoint").verdict, OpVerdict::kRare);
}

TEST(CompareRuns, FewStepsDecideNothing) {
  const RunComparison found = Compared(
      {.seed = 9, .steps = 3}, {.seed = 10, .factors = {{"gemm_large", 2}}, .input_ms = 40});
  EXPECT_EQ(found.step.verdict, ChangeVerdict::kNotDecidable);
  for (const PartChange& part : found.parts)
    EXPECT_EQ(part.time.verdict, ChangeVerdict::kNotDecidable);
  EXPECT_THAT(ChangedOps(found), IsEmpty());
  EXPECT_EQ(Headline(found),
            "not decidable whether steps changed: the runs have 3 and 20 steps, and 6 are needed");
  EXPECT_THAT(found.unknown, Contains(HasSubstr("the run before has 3 complete steps")));
}

TEST(CompareRuns, RunsWithoutStepsShowTheRecordings) {
  std::vector<digest::Digest> digests = SimulateRun({.seed = 11});
  for (digest::Digest& digest : digests) digest.steps.clear();
  const RunComparison found = CompareRuns(SummaryOf({.seed = 12}), SummarizeRun(digests));
  EXPECT_FALSE(found.of_steps);
  EXPECT_EQ(Headline(found), "not decidable whether steps changed: a run has no steps");
  const Change& compute = PartOf(found, StepPart::kCompute).time;
  EXPECT_NEAR(compute.before / 1e9, 60 / kSyntheticStepMs, 0.06);
  EXPECT_NEAR(compute.before, compute.after, 0.1 * compute.before);
  EXPECT_EQ(compute.verdict, ChangeVerdict::kNotDecidable);
  EXPECT_THAT(ChangedOps(found), IsEmpty());
  EXPECT_THAT(found.unknown, Contains(HasSubstr("the run after has no steps")));
  const RunComparison nobody = CompareRuns({}, SummaryOf({.seed = 12}));
  EXPECT_THAT(nobody.unknown, Contains("the run before has no workers"));
}

TEST(CompareRuns, TellsWhatElseDiffersBetweenTheRuns) {
  std::vector<digest::Digest> other = SimulateRun({.seed = 13, .workers = 4});
  for (digest::Digest& digest : other) {
    digest.names[0] = "ProfilerStep";
    digest.knows.input = false;
    digest.knows.host_device = true;
  }
  const RunComparison found = CompareRuns(SummaryOf({.seed = 14}), SummarizeRun(other));
  EXPECT_THAT(found.unknown, Contains(HasSubstr("different names: train before and ProfilerStep")));
  EXPECT_THAT(found.unknown, Contains(HasSubstr("8 and 4 workers")));
  EXPECT_THAT(found.unknown, Contains("input is shown by the run before only"));
  EXPECT_THAT(found.unknown, Contains(HasSubstr("not comparable")));
  EXPECT_THAT(ChangedOps(found), IsEmpty());
}

TEST(CompareRuns, SurvivesHostileDigests) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::vector<digest::Digest> digests = SimulateRun({.seed = 15});
  digests[0].steps[2] = {.loop = 77, .begin_ns = kMin, .end_ns = kMax};
  digests[1].steps[3].time = {kMax, kMax, kMax, kMax, kMax, kMax, kMax};
  digests[2].steps[3].begin_ns = kMin;
  digests[2].steps[3].end_ns = kMax;
  digests[2].steps[4].host = {kMin, kMin, kMax, kMax};
  digests[3].begin_ns = kMax;
  digests[3].end_ns = kMin;
  digests[4].ops[0] = {.name = 99, .count = ~std::uint64_t{0}, .total_ns = kMax, .self_ns = kMax};
  digests[4].ops[1].self_ns = kMin;
  digests[4].ops[2] = {.name = 1, .count = ~std::uint64_t{0}, .self_ns = kMax, .p99_ns = kMax};
  digests[5].ops[1] = digests[5].ops[2];
  digests[6].time = {kMin, kMin, kMin, kMin, kMin, kMin, kMin};
  digests[7].rank = digests[6].rank;
  const RunSummary hostile = SummarizeRun(digests), usual = SummaryOf({.seed = 16});
  for (const RunComparison& found :
       {CompareRuns(hostile, usual), CompareRuns(usual, hostile), CompareRuns(hostile, hostile)}) {
    EXPECT_FALSE(Headline(found).empty());
    EXPECT_FALSE(ComparisonToJson(found, 100).dump().empty());
  }
}

TEST(CompareRuns, NothingIsDecidedOfOneWorkersOperationWithoutQuantiles) {
  const RunSummary before = SummaryOf({.seed = 19, .workers = 1});
  std::vector<digest::Digest> digests =
      SimulateRun({.seed = 20, .workers = 1, .factors = {{"gemm_large", 3}}});
  const RunComparison known = CompareRuns(before, SummarizeRun(digests));
  EXPECT_EQ(OpOf(known, "gemm_large").verdict, OpVerdict::kLonger);
  for (digest::Op& op : digests[0].ops) op.p50_ns = op.p99_ns = 0;
  const RunComparison unknown = CompareRuns(before, SummarizeRun(digests));
  EXPECT_EQ(OpOf(unknown, "gemm_large").verdict, OpVerdict::kNotDecidable);
  EXPECT_NEAR(OpOf(unknown, "gemm_large").self.after / 1e6, 60, 8);
  const nlohmann::json json = ComparisonToJson(unknown, 100);
  for (const nlohmann::json& op : json["ops"]) EXPECT_TRUE(op["errorNs"].is_null()) << op;
}

TEST(CompareRuns, JsonHasTheWholeComparison) {
  const RunComparison found = Compared({.seed = 17}, {.seed = 18, .factors = {{"attention", 1.6}}});
  const nlohmann::json json = ComparisonToJson(found, 2);
  EXPECT_EQ(json["headline"], Headline(found));
  EXPECT_EQ(json["unit"], "step");
  EXPECT_EQ(json["before"]["stepsNs"].size(), 20u);
  EXPECT_EQ(json["step"]["verdict"], "longer");
  EXPECT_EQ(json["parts"]["exposed communication"]["verdict"], "no change");
  EXPECT_EQ(json["ops"].size(), 2u);
  EXPECT_EQ(json["ops"][0]["name"], "attention");
  EXPECT_EQ(json["ops"][0]["kind"], "compute");
  EXPECT_EQ(json["ops"][0]["verdict"], "longer");
  EXPECT_EQ(json["opsLeftOut"], found.ops.size() - 2);
  const nlohmann::json few = ComparisonToJson(Compared({.steps = 2}, {.steps = 2}), 2);
  EXPECT_TRUE(few["step"]["smallestToldNs"].is_null());
  EXPECT_EQ(few["step"]["verdict"], "not decidable");
}

// What chance alone claimed.
struct FalseAlarms {
  std::uint64_t cases = 0, steps = 0, parts = 0, ops = 0;
};

FalseAlarms CountFalseAlarms(const SyntheticRun& like, std::uint64_t cases) {
  FalseAlarms alarms{.cases = cases};
  for (std::uint64_t i = 0; i < cases; ++i) {
    SyntheticRun before = like, after = like;
    before.seed = 1000 + 2 * i;
    after.seed = before.seed + 1;
    const RunComparison found = Compared(before, after);
    alarms.steps += StepChanged(found);
    alarms.parts += std::any_of(found.parts.begin(), found.parts.end(), [](const auto& part) {
      return part.time.verdict == ChangeVerdict::kLonger ||
             part.time.verdict == ChangeVerdict::kShorter;
    });
    alarms.ops += !ChangedOps(found).empty();
  }
  return alarms;
}

TEST(CompareRuns, EqualRunsSeldomDiffer) {
  const std::pair<const char*, SyntheticRun> kinds[] = {
      {"usual", {}},
      {"one_worker", {.workers = 1}},
      {"many_workers", {.workers = 32}},
      {"few_steps", {.steps = 6}},
      {"many_steps", {.workers = 2, .steps = 100}},
      {"noisy", {.step_noise = 0.03, .worker_noise = 0.03}},
      {"resembling", {.step_noise = 0.02, .drift = 0.02, .resemblance = 0.7}},
      {"long_steps", {.long_steps = 0.15}}};
  for (const auto& [name, like] : kinds) {
    const std::uint64_t cases = like.workers > 8 ? kComparedCases / 5 : kComparedCases;
    const FalseAlarms alarms = CountFalseAlarms(like, cases);
    RecordProperty(StrCat(name, "_steps"), static_cast<int>(alarms.steps));
    RecordProperty(StrCat(name, "_parts"), static_cast<int>(alarms.parts));
    RecordProperty(StrCat(name, "_ops"), static_cast<int>(alarms.ops));
    EXPECT_LE(alarms.steps, cases / 100) << name;
    EXPECT_LE(alarms.parts, cases / 50) << name;
    EXPECT_LE(alarms.ops, cases / 20) << name;
  }
}

// What a change of one kind is called.
struct InjectedChange {
  SyntheticRun run{};
  StepPart part = StepPart::kCompute;
  std::string op{};  // "" = none.
};

// Makes a step `ms` longer, each kind in a way of its own.
InjectedChange Inject(std::uint64_t kind, double ms, SyntheticRun run) {
  switch (kind) {
    case 0:
      run.factors = {{"gemm_large", 1 + ms / 20}};
      return {run, StepPart::kCompute, "gemm_large"};
    case 1:
      run.input_ms += ms;
      return {run, StepPart::kInput, ""};
    case 2:
      run.factors = {{"all_reduce", 1 + ms / 12}};
      return {run, StepPart::kExposedCommunication, "all_reduce"};
    case 3:
      run.added = {{"new_kernel", ms}};
      return {run, StepPart::kCompute, "new_kernel"};
    default:
      run.host_ms += ms;
      return {run, StepPart::kHostBound, ""};
  }
}

TEST(CompareRuns, FindsChangesAboveTheNoise) {
  std::uint64_t cases = 0, steps = 0, parts = 0, ops = 0, with_op = 0;
  std::vector<std::string> missed;
  for (std::uint64_t i = 0; i < kComparedCases; ++i) {
    const double share = 0.03 + 0.27 * static_cast<double>(i * 2654435761u % 1000) / 999;
    const SyntheticRun before{.seed = 5000 + 2 * i};
    const InjectedChange injected =
        Inject(i % 5, share * kSyntheticStepMs, {.seed = before.seed + 1});
    const bool gone = i % 2 == 1;
    const RunComparison found =
        gone ? Compared(injected.run, before) : Compared(before, injected.run);
    // A step varies by about 1.2 %, and must have changed by more than 1 %.
    if (share < 0.01 + 3 * 0.012) continue;
    ++cases;
    const ChangeVerdict expected = gone ? ChangeVerdict::kShorter : ChangeVerdict::kLonger;
    steps += found.step.verdict == expected;
    parts += PartOf(found, injected.part).time.verdict == expected;
    if (found.step.verdict != expected)
      missed.push_back(StrCat(i, ": ", share, " ", Headline(found)));
    if (injected.op.empty()) continue;
    ++with_op;
    ops += IsChange(OpOf(found, injected.op).verdict);
  }
  RecordProperty("cases", static_cast<int>(cases));
  RecordProperty("steps", static_cast<int>(steps));
  RecordProperty("parts", static_cast<int>(parts));
  RecordProperty("ops", static_cast<int>(ops));
  RecordProperty("with_op", static_cast<int>(with_op));
  EXPECT_GE(static_cast<double>(steps), 0.99 * static_cast<double>(cases)) << Join(missed, "\n");
  EXPECT_GE(static_cast<double>(parts), 0.99 * static_cast<double>(cases));
  EXPECT_GE(static_cast<double>(ops), 0.99 * static_cast<double>(with_op));
}

}  // namespace
}  // namespace strobe::report
