#include "collector/trace/report/stragglers.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "collector/trace/report/digest_operations.h"
#include "collector/trace/report/headline.h"
#include "common/base/strings.h"
#include "tests/fakes/published_job.h"
#include "tests/fakes/synthetic_job.h"
#include "tests/fakes/unit_dir.h"

namespace strobe::report {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kMilli = 1'000'000;

// Under the sanitizers a case takes forty times as long, and a few reach all code. They are too few
// for the bounds on mistakes.
#ifdef STROBE_SANITIZED
constexpr unsigned kOneCaseOf = 40;
#else
constexpr unsigned kOneCaseOf = 1;
#endif

Job Merge(const std::vector<digest::Digest>& digests, std::size_t expected = 0) {
  DigestMerger merger;
  for (const digest::Digest& digest : digests) merger.Add(digest);
  return merger.Finish(expected);
}

// A job of workers that compute for 60 ms, or what `own_ms` says, wait for each other, and exchange
// for 8 ms. Clocks are known within 100 us.
struct PlainJob {
  std::vector<std::int64_t> own_ms{60, 60, 60, 60, 60, 60, 60, 60};
  std::int64_t steps = 10;
  bool input = true;  // What is above 60 ms is a stall of input and not computation.

  std::vector<digest::Digest> Digests() const {
    const std::int64_t slowest = *std::max_element(own_ms.begin(), own_ms.end());
    std::vector<digest::Digest> digests;
    for (std::uint32_t rank = 0; rank < own_ms.size(); ++rank) {
      digest::Digest& digest = digests.emplace_back(digest::Digest{
          .worker = StrCat("w", rank), .rank = rank, .zero_ns = 1'790'000'000'000 * kMilli});
      digest.clock_error_ns = 100'000;
      digest.knows = {.device = true, .launches = true, .input = true, .steps = true};
      digest.names = {"train", "all-reduce"};
      digest.communicators = {{.name = "0"}};
      for (std::int64_t i = 0; i <= steps; ++i) {
        const std::int64_t begin = i * (slowest + 8) * kMilli, own = own_ms[rank] * kMilli;
        const std::int64_t end = begin + (slowest + 8) * kMilli;
        digest::Step step{.number = i, .begin_ns = begin, .end_ns = end, .followed = i < steps};
        step.time.span_ns = end - begin;
        step.time.compute_ns = input ? 60 * kMilli : own;
        step.time.communication_ns = step.time.exposed_communication_ns = end - begin - own;
        step.time.idle_ns = own - step.time.compute_ns;
        step.host.input_ns = step.host.input_stall_ns = step.time.idle_ns;
        digest.steps.push_back(step);
        digest.collectives.push_back({.name = 1,
                                      .ordinal = static_cast<std::uint32_t>(i),
                                      .begin_ns = begin + own,
                                      .end_ns = end,
                                      .kind = digest::CollectiveKind::kAllReduce});
      }
    }
    return digests;
  }
};

std::string HeadlineOf(const std::vector<digest::Digest>& digests) {
  const Job job = Merge(digests);
  return Headline(job, FindStragglers(job));
}

TEST(FindStragglers, NamesTheOneWhomTheOthersWaitFor) {
  PlainJob plain;
  plain.own_ms[5] = 72;
  const Job job = Merge(plain.Digests());
  const StragglerReport report = FindStragglers(job);
  ASSERT_EQ(report.stragglers.size(), 1u);
  const Straggler& found = report.stragglers[0];
  EXPECT_EQ(found.late.who, 5u);
  EXPECT_NEAR(found.late.ns, 12e6, 1);
  EXPECT_TRUE(found.late.persistent);
  EXPECT_EQ(found.late.causes[0].cause, Cause::kInput);
  EXPECT_NEAR(found.held_up->ns, 12e6, 1);
  EXPECT_NEAR(report.step_ns, 80e6, 1);
  EXPECT_NEAR(report.held_up.share, 0.15, 1e-3);
  EXPECT_EQ(report.arrivals.workers[5].last, 10u);
  EXPECT_EQ(report.arrivals.workers[5].made_wait_ns, 10 * 7 * 12 * kMilli)
      << "seven devices lost 12 ms in each of ten steps";
  EXPECT_EQ(report.arrivals.workers[0].waited_ns, 10 * 12 * kMilli);
  EXPECT_EQ(Headline(job, report), "rank 5 holds up 7 others by 12ms a step (15%): input");
}

TEST(FindStragglers, TwoAtOnceHoldUpTheOthersTogether) {
  PlainJob plain;
  plain.own_ms[2] = plain.own_ms[5] = 72;
  plain.input = false;
  const Job job = Merge(plain.Digests());
  const StragglerReport report = FindStragglers(job);
  EXPECT_EQ(Headline(job, report), "ranks 2 and 5 hold up 6 others by 12ms a step (15%): compute");
  ASSERT_EQ(report.stragglers.size(), 2u);
  EXPECT_NEAR(report.stragglers[0].held_up->ns, 12e6, 1) << "each alone would";
  EXPECT_EQ(report.arrivals.workers[2].last + report.arrivals.workers[5].last, 0u)
      << "which of the two was last is not known";
}

TEST(FindStragglers, NothingIsSaidOfWorkersThatAreAlike) {
  const Job job = Merge(PlainJob().Digests());
  const StragglerReport report = FindStragglers(job);
  EXPECT_THAT(report.stragglers, IsEmpty());
  EXPECT_EQ(Headline(job, report),
            "no straggler: no worker takes more than 680us a step (1%) longer than the others");
  EXPECT_EQ(report.arrivals.calls.at(0).undecided, 10u);
}

// A difference that would be seen only if a step took twice as long shows nothing.
TEST(FindStragglers, VagueStepsAreNoProofThatThereIsNoStraggler) {
  StragglerReport report;
  report.workers = report.compared = 2;
  report.steps = 5;
  report.step_ns = 1e6;
  report.smallest_ns = 4.7e6;
  EXPECT_EQ(Headline({}, report),
            "too early to tell: 5 steps show only a worker that takes 4.7ms a step (470%) longer "
            "than the others");
  report.smallest_ns = 0.99e6;
  EXPECT_THAT(Headline({}, report), testing::StartsWith("no straggler: "));
}

TEST(FindStragglers, WhereClocksDoNotTellWhoWaitsDurationsDo) {
  PlainJob plain;
  plain.own_ms[5] = 72;
  std::vector<digest::Digest> digests = plain.Digests();
  for (const std::optional<std::int64_t> error :
       {std::optional<std::int64_t>(7 * kMilli), std::optional<std::int64_t>()}) {
    for (digest::Digest& digest : digests) digest.clock_error_ns = error;
    // Without clocks, any offset is possible.
    if (!error) digests[2].zero_ns += 5 * kMilli;
    const Job job = Merge(digests);
    const StragglerReport report = FindStragglers(job);
    EXPECT_EQ(Headline(job, report), "rank 5 holds up 7 others by 12ms a step (15%): input");
    ASSERT_EQ(report.stragglers.size(), 1u);
    EXPECT_EQ(report.stragglers[0].evidence, Evidence::kDurations);
    EXPECT_EQ(report.arrivals.workers[5].last, 10u);
    EXPECT_EQ(report.arrivals.workers[2].waited_ns, 10 * 12 * kMilli);
  }
}

// Members of a broadcast may go on before the others have come, so that durations tell nothing.
TEST(FindStragglers, ADifferenceBelowTheClocksErrorIsNotDecidedWithoutDurations) {
  PlainJob plain;
  plain.own_ms[5] = 72;
  std::vector<digest::Digest> digests = plain.Digests();
  for (digest::Digest& digest : digests) {
    digest.clock_error_ns = 7 * kMilli;
    for (digest::Collective& call : digest.collectives)
      call.kind = digest::CollectiveKind::kBroadcast;
  }
  EXPECT_EQ(HeadlineOf(digests),
            "not decidable who waits: rank 5 takes 12ms a step longer than the others (input), but "
            "clocks are known only within 14ms");
  const Job job = Merge(digests);
  EXPECT_EQ(FindStragglers(job).arrivals.workers[5].last, 0u);
  digests[5].clock_error_ns.reset();
  EXPECT_EQ(HeadlineOf(digests),
            "not decidable who waits: rank 5 takes 12ms a step longer than the others (input), but "
            "clocks are not measured");
  EXPECT_THAT(Merge(digests).unknown, Contains(HasSubstr("not measured (rank 5)")));
}

TEST(FindStragglers, TellsWhatItCannotKnow) {
  PlainJob plain;
  plain.own_ms[5] = 72;
  EXPECT_EQ(HeadlineOf({}), "not decidable: there are no workers");
  plain.steps = 1;
  EXPECT_EQ(HeadlineOf(plain.Digests()), "too early to tell: only 1 complete step was recorded");
  EXPECT_THAT(Merge(plain.Digests()).unknown, Contains(HasSubstr("one step only")));
  plain.steps = 10;
  std::vector<digest::Digest> digests = plain.Digests();
  EXPECT_EQ(HeadlineOf({digests[0]}), "device busy 100%; 25% exposed communication");
  digests[0].knows.device = false;
  EXPECT_THAT(HeadlineOf({digests[0]}), HasSubstr("there is nobody to compare it with"));
  EXPECT_THAT(Merge(digests, 10).unknown, Contains(HasSubstr("2 of 10 workers are missing")));
  for (digest::Digest& digest : digests) digest.collectives.clear();
  EXPECT_THAT(HeadlineOf(digests), HasSubstr("have no collective that joins them"));
  for (digest::Digest& digest : digests) digest.steps.clear();
  EXPECT_EQ(HeadlineOf(digests), "not decidable: no trace has steps");
  EXPECT_THAT(Merge(digests).unknown, Contains(HasSubstr("no trace has steps")));
}

TEST(FindStragglers, TwoStepsAreWeakEvidence) {
  PlainJob plain;
  plain.steps = 2;
  EXPECT_EQ(HeadlineOf(plain.Digests()), "too early to tell: only 2 complete steps were recorded");
  plain.own_ms[5] = 72;
  const Job job = Merge(plain.Digests());
  const StragglerReport report = FindStragglers(job);
  EXPECT_TRUE(report.likely);
  EXPECT_EQ(Headline(job, report),
            "likely rank 5 holds up 7 others by 12ms a step (15%), input: weak evidence, 2 steps");
  EXPECT_THAT(report.unknown, Contains(HasSubstr("of 100 jobs without a straggler, about 1 gets")));
  // Nothing is claimed if the others do not wait for it in their calls.
  std::vector<digest::Digest> apart = plain.Digests();
  for (digest::Digest& digest : apart) {
    for (digest::Collective& call : digest.collectives) call.begin_ns = call.end_ns - kMilli;
  }
  EXPECT_EQ(HeadlineOf(apart), "too early to tell: only 2 complete steps were recorded");
}

// torch.profiler's steps follow each other at once, so that the end of the last one is known.
TEST(FindStragglers, ALastStepWithAnEndCounts) {
  PlainJob plain;
  plain.own_ms[5] = 72;
  plain.steps = 2;  // And a last one.
  std::vector<digest::Digest> digests = plain.Digests();
  for (digest::Digest& digest : digests) {
    for (digest::Step& step : digest.steps) step.annotation_end_ns = step.end_ns;
  }
  EXPECT_EQ(HeadlineOf(digests), "rank 5 holds up 7 others by 12ms a step (15%): input");
}

TEST(FindStragglers, SurvivesHostileDigests) {
  PlainJob plain;
  std::vector<digest::Digest> digests = plain.Digests();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  digests[0].zero_ns = kMin;
  digests[1].clock_offset_ns = kMin;
  digests[2].clock_error_ns = kMax;
  digests[3].steps[2] = {.loop = 77, .begin_ns = kMin, .end_ns = kMax};
  digests[3].steps[3].time = {kMax, kMax, kMax, kMax, kMax, kMax, kMax};
  digests[4].collectives[2] = {.communicator = 99, .name = 99, .begin_ns = kMax, .end_ns = kMin};
  digests[5].collectives[2].communicator = 99;
  digests[6].collectives[2].ordinal = 0xffffffff;
  digests[6].collectives[3].begin_ns = kMin;
  digests[7].steps[1].host = {kMin, kMin, kMax, kMax};
  EXPECT_FALSE(HeadlineOf(digests).empty());
}

// What was found in jobs of which some workers were slowed.
struct Tally {
  std::size_t cases = 0, right = 0;
  std::size_t found = 0, found_kind = 0;  // Workers; how often it is right whether always or not.
  std::vector<double> lost_errors{};      // Errors of the lost time, as shares of it.
  std::vector<std::string> mistakes{};
};

// One to `most` slowed workers, some only now and then, by 3 to 30 % of a step.
SyntheticJob SlowedJob(std::uint64_t seed, std::size_t workers, std::size_t most) {
  constexpr Cause kInjected[] = {Cause::kCompute, Cause::kInput, Cause::kHost, Cause::kCopies};
  constexpr double kStepMs = 94;
  SyntheticJob job{.seed = seed, .workers = workers};
  const std::size_t slowed = seed % 10 < 7 ? 1 : std::min<std::size_t>(seed % 10 - 5, most);
  for (std::size_t i = 0; i < slowed; ++i) {
    const std::uint64_t mixed = (seed * 3 + i) * 2654435761u;
    job.slowed.push_back({.worker = (seed * 13 + i * 29) % workers,
                          .cause = kInjected[(seed + i) % 4],
                          .ms = kStepMs * (0.03 + 0.27 * static_cast<double>(mixed % 1000) / 999),
                          .probability = (seed / 4 + i) % 4 == 3 ? 0.4 : 1});
  }
  return job;
}

// Which of the slowed workers exceed their clock's error and that of a typical other one, and the
// noise of a step.
std::vector<SlowedWorker> DecidableOf(const SyntheticJob& job,
                                      const std::vector<digest::Digest>& digests) {
  std::vector<double> errors;
  for (const digest::Digest& digest : digests)
    errors.push_back(static_cast<double>(*digest.clock_error_ns) / 1e6);
  std::vector<double> sorted = errors;
  std::sort(sorted.begin(), sorted.end());
  std::vector<SlowedWorker> decidable;
  for (const SlowedWorker& worker : job.slowed) {
    const double unknown = errors[worker.worker] + sorted[sorted.size() / 2] + kStepNoiseMs;
    if (worker.ms * worker.probability > unknown) decidable.push_back(worker);
  }
  return decidable;
}

void Judge(const SyntheticJob& job, Tally& tally) {
  const SimulatedJob simulated = Simulate(job);
  const Job merged = Merge(simulated.digests);
  const StragglerReport report = FindStragglers(merged);
  const std::vector<SlowedWorker> decidable = DecidableOf(job, simulated.digests);
  bool right = true;
  for (const SlowedWorker& worker : decidable) {
    const auto found =
        std::find_if(report.stragglers.begin(), report.stragglers.end(),
                     [&](const Straggler& it) { return it.late.who == worker.worker; });
    right &= found != report.stragglers.end() && !found->late.causes.empty() &&
             found->late.causes[0].cause == worker.cause;
    if (found == report.stragglers.end()) continue;
    ++tally.found;
    tally.found_kind += found->late.persistent == (worker.probability == 1);
  }
  for (const Straggler& straggler : report.stragglers) {
    right &= std::any_of(job.slowed.begin(), job.slowed.end(), [&](const SlowedWorker& worker) {
      return worker.worker == straggler.late.who;
    });
  }
  if (decidable.empty() && right) return;
  ++tally.cases;
  tally.right += right;
  if (!right) tally.mistakes.push_back(StrCat(job.seed, ": ", Headline(merged, report)));
  if (decidable.size() < job.slowed.size()) return;
  const double lost = simulated.step_ms - simulated.step_ms_without_slowed;
  tally.lost_errors.push_back(std::fabs(report.held_up.ns / 1e6 - lost) / lost);
}

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(FindStragglers, IsRightInNearlyAllCasesOfInjectedStragglers) {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 500 / kOneCaseOf; ++seed)
    Judge(SlowedJob(seed, 64, 3), tally);
  RecordProperty("cases", static_cast<int>(tally.cases));
  RecordProperty("right", static_cast<int>(tally.right));
  RecordProperty("lost_error_permille", static_cast<int>(1000 * MeanOf(tally.lost_errors)));
  if (kOneCaseOf > 1) return;
  EXPECT_GE(tally.cases, 400u);
  EXPECT_GE(static_cast<double>(tally.right), 0.99 * static_cast<double>(tally.cases))
      << Join(tally.mistakes, "\n");
  EXPECT_GE(static_cast<double>(tally.found_kind), 0.95 * static_cast<double>(tally.found));
  EXPECT_LT(MeanOf(tally.lost_errors), 0.1);
}

TEST(FindStragglers, IsRightInNearlyAllCasesOfSmallJobs) {
  for (const std::size_t workers : {2u, 8u}) {
    Tally tally;
    for (std::uint64_t seed = 1; seed <= 200 / kOneCaseOf; ++seed)
      Judge(SlowedJob(seed, workers, 1), tally);
    RecordProperty(StrCat("right_of_", workers), static_cast<int>(tally.right));
    RecordProperty(StrCat("cases_of_", workers), static_cast<int>(tally.cases));
    if (kOneCaseOf > 1) continue;
    EXPECT_GE(static_cast<double>(tally.right), 0.95 * static_cast<double>(tally.cases))
        << Join(tally.mistakes, "\n");
    EXPECT_LT(MeanOf(tally.lost_errors), 0.1);
  }
}

TEST(FindStragglers, FindsNoneInNearlyAllCleanCases) {
  for (const auto& [workers, cases] : {std::pair(64u, 500u), std::pair(8u, 200u)}) {
    std::vector<std::string> mistakes;
    for (std::uint64_t seed = 1; seed <= cases / kOneCaseOf; ++seed) {
      const SimulatedJob simulated = Simulate({.seed = 10'000 + seed, .workers = workers});
      const Job job = Merge(simulated.digests);
      const StragglerReport report = FindStragglers(job);
      if (!report.stragglers.empty() || !report.not_decided.empty())
        mistakes.push_back(StrCat(seed, ": ", Headline(job, report)));
    }
    RecordProperty(StrCat("mistakes_of_", workers), static_cast<int>(mistakes.size()));
    if (kOneCaseOf > 1) continue;
    EXPECT_LE(mistakes.size(), cases * 5 / 1000) << Join(mistakes, "\n");
  }
}

// What a profile of two whole steps tells of the simulated job.
StragglerReport ReportOfTwoSteps(const SyntheticJob& job) {
  std::vector<digest::Digest> digests = Simulate(job).digests;
  for (digest::Digest& digest : digests)
    digest.steps.erase(digest.steps.begin(), digest.steps.end() - 2);
  return FindStragglers(Merge(digests));
}

// kLikelyFalseAlarm promises 5 of 500 in the mean; more than 12 would come by chance in 0.2 % of
// such tests.
TEST(FindStragglers, LikelyIsSaidOfFewJobsWithoutAStraggler) {
  for (const unsigned workers : {64u, 8u, 2u}) {
    constexpr unsigned kCases = 500;
    unsigned cut = 0;  // The last step is much shorter than the one before, as one that was cut.
    std::vector<std::string> mistakes;
    for (unsigned seed = 1; seed <= kCases / kOneCaseOf; ++seed) {
      const StragglerReport report =
          ReportOfTwoSteps({.seed = 20'000 + seed, .workers = workers, .steps = 3});
      cut += report.steps != 2;
      if (!report.stragglers.empty()) mistakes.push_back(StrCat(seed));
    }
    RecordProperty(StrCat("likely_of_", workers), static_cast<int>(mistakes.size()));
    EXPECT_LE(cut, kCases / 100) << workers;
    if (kOneCaseOf > 1) continue;
    EXPECT_LE(mistakes.size(), 12u) << workers << ": " << Join(mistakes, ", ");
  }
}

TEST(FindStragglers, LikelyNamesMostStragglersOfTwoSteps) {
  constexpr unsigned kCases = 200;
  unsigned right = 0;
  for (unsigned seed = 1; seed <= kCases / kOneCaseOf; ++seed) {
    const std::size_t slowed = seed % 8;
    const StragglerReport report = ReportOfTwoSteps(
        {.seed = 30'000 + seed,
         .workers = 8,
         .steps = 3,
         .slowed = {{.worker = slowed, .cause = Cause::kInput, .ms = 20, .probability = 1}}});
    right +=
        report.likely && report.stragglers.size() == 1 && report.stragglers[0].late.who == slowed;
  }
  RecordProperty("right", static_cast<int>(right));
  if (kOneCaseOf > 1) return;
  EXPECT_GE(right, kCases * 9 / 10);
}

Job PublishedJob(const char* name) {
  const auto operations =
      ReadPublishedJob(StrCat(UnitDir(), "/../data/straggler-analysis/", name, ".txt.gz"));
  EXPECT_TRUE(operations.ok()) << operations.status();
  return *MakePipelineJob(*operations);
}

TEST(FindStragglers, NamesTheSlowWorkerOfThePublishedJob) {
  const Job job = PublishedJob("AR");
  const StragglerReport report = FindStragglers(job);
  ASSERT_EQ(report.stragglers.size(), 1u) << Headline(job, report);
  EXPECT_EQ(job.workers[report.stragglers[0].late.who].name, "replica 0, stage 0");
  EXPECT_EQ(report.stragglers[0].late.causes[0].cause, Cause::kCompute);
  // The published share of the step that its slowness takes: 1 - 1 / S.
  EXPECT_NEAR(report.held_up.share, 1 - 1 / 1.973, 0.03);
  EXPECT_THAT(Headline(job, report), AllOf(HasSubstr("replica 0, stage 0 holds up 15 others by "),
                                           HasSubstr(": compute")));
}

// Its last stage has more to do, which its workers have in common.
TEST(FindStragglers, WorkersOfALongStageAreNoStragglers) {
  EXPECT_THAT(FindStragglers(PublishedJob("ST")).stragglers, IsEmpty());
}

}  // namespace
}  // namespace strobe::report
