#include "operator/policy/retention.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "common/base/strings.h"

namespace strobe::policy {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

const WallTime kKeepNow{std::chrono::seconds(1'800'000'000)};

kube::RunCreator Keeper(kube::CreatorKind kind, std::size_t keep = 1000) {
  kube::RunCreator creator(kind);
  creator.keep_succeeded = creator.keep_failed = keep;
  return creator;
}

kube::CreatedRun EndedAgo(const std::string& name, Nanos ago, const std::string& job = "",
                          kube::RunState state = kube::RunState::kSucceeded) {
  kube::CreatedRun run{.name = name, .state = state, .completion = kKeepNow - ago};
  run.created = kKeepNow - ago - 1min;
  run.job = job;
  return run;
}

std::vector<std::string> Removed(const kube::RunCreator& creator,
                                 const std::vector<kube::CreatedRun>& runs,
                                 const std::optional<SeriesBounds>& bounds) {
  std::vector<std::string> names;
  for (const kube::CreatedRun& run : DecideRetention(creator, runs, bounds, kKeepNow).remove)
    names.push_back(run.name);
  return names;
}

TEST(Retention, KeepsTheLastOfEachKindAndNothingThatIsTooOld) {
  kube::RunCreator schedule = Keeper(kube::CreatorKind::kSchedule, 2);
  std::vector<kube::CreatedRun> runs = {EndedAgo("f", 1h),
                                        EndedAgo("e", 2h, "", kube::RunState::kFailed),
                                        EndedAgo("d", 3h), EndedAgo("c", 4h), EndedAgo("b", 5h)};
  EXPECT_THAT(Removed(schedule, runs, SeriesBounds{}), ElementsAre("c", "b"));
  schedule.keep_for = 3h;
  EXPECT_THAT(Removed(schedule, runs, SeriesBounds{}), ElementsAre("d", "c", "b"));
  runs[2].state = kube::RunState::kUnfinished;
  runs[3].deleting = true;
  EXPECT_THAT(Removed(schedule, runs, SeriesBounds{}), ElementsAre("b"));
  schedule.invalid = "spec.template: broken";
  EXPECT_THAT(Removed(schedule, runs, SeriesBounds{}), IsEmpty())
      << "what it asks for is not known";
  EXPECT_THAT(Removed(schedule, runs, SeriesBounds{.age = 90min}), ElementsAre("e", "b"));
}

TEST(Retention, PoliciesAreNotBoundByWhatTheObjectSays) {
  const std::vector<kube::CreatedRun> runs = {
      EndedAgo("f", 1h), EndedAgo("e", 2h, "", kube::RunState::kFailed), EndedAgo("d", 3h)};
  const kube::RunCreator schedule = Keeper(kube::CreatorKind::kSchedule);
  EXPECT_THAT(Removed(schedule, runs, SeriesBounds{}), IsEmpty());
  EXPECT_THAT(Removed(schedule, runs, SeriesBounds{.runs = 2}), ElementsAre("d"));
  EXPECT_THAT(Removed(schedule, runs, SeriesBounds{.runs = 2, .age = 2h}), ElementsAre("e", "d"));
  kube::RunCreator strict = Keeper(kube::CreatorKind::kSchedule, 0);
  strict.keep_for = 1min;
  EXPECT_THAT(Removed(strict, runs, SeriesBounds{.runs = 9, .age = 9h}), ElementsAre("f", "e", "d"))
      << "the stricter wins";
  EXPECT_THAT(Removed(strict, runs, std::nullopt), IsEmpty());
  EXPECT_THAT(Removed(strict, runs, SeriesBounds{.counted = true}), IsEmpty())
      << "a budget counts them";
}

TEST(Retention, ASeriesOfATriggerIsTheRunsOfOneJob) {
  const std::vector<kube::CreatedRun> runs = {EndedAgo("f", 25h, "a"), EndedAgo("e", 26h, "b"),
                                              EndedAgo("d", 27h, "a"), EndedAgo("c", 28h, "b")};
  EXPECT_THAT(Removed(Keeper(kube::CreatorKind::kTrigger), runs, SeriesBounds{.runs = 1}),
              ElementsAre("d", "c"));
  EXPECT_THAT(Removed(Keeper(kube::CreatorKind::kSchedule), runs, SeriesBounds{.runs = 1}),
              ElementsAre("e", "d", "c"))
      << "the target of a schedule may have been changed";
  EXPECT_THAT(
      Removed(Keeper(kube::CreatorKind::kTrigger, 0), {EndedAgo("f", 23h, "a")}, SeriesBounds{}),
      IsEmpty())
      << "the trigger's own budget counts it";
}

TEST(Retention, BoundsAreTheStrictestOfTheNamespace) {
  ProfilePolicy one{.name = "one"}, other{.name = "other"}, elsewhere{.name = "elsewhere"},
      broken{.name = "broken"};
  one.automatic.keep_runs = 5;
  one.automatic.keep_for = 24h;
  other.automatic.keep_runs = 9;
  other.automatic.keep_for = 2h;
  elsewhere.automatic.keep_runs = broken.automatic.keep_runs = 1;
  elsewhere.automatic.budget.captures_per_day = 1;
  elsewhere.namespaces.requirements = {
      {"team", kube::LabelSelector::Requirement::Operator::kExists, {}}};
  broken.invalid = "automatic.keep.runs";
  const std::vector<ProfilePolicy> policies = {one, other, elsewhere, broken};
  EXPECT_EQ(BoundsOfSeries(policies, {}), (SeriesBounds{.runs = 5, .age = 2h}));
  EXPECT_EQ(BoundsOfSeries(policies, {{"team", "ml"}}),
            (SeriesBounds{.runs = 1, .age = 2h, .counted = true}));
}

// A month, looked at only when it is asked for: no run is removed too early, and none stays longer
// than it may by more than a look.
TEST(Retention, LookingAgainWhenItSaysRemovesRunsInTime) {
  std::mt19937 random(22);
  kube::RunCreator schedule = Keeper(kube::CreatorKind::kSchedule);
  schedule.keep_for = 3h;
  const SeriesBounds bounds{.runs = 40, .age = 5h};
  std::vector<kube::CreatedRun> runs;
  WallTime now = kKeepNow;
  for (const WallTime end = now + 720h; now < end;) {
    if (random() % 4 == 0) {
      kube::CreatedRun run{.name = StrCat(now.time_since_epoch().count()),
                           .state = kube::RunState::kSucceeded,
                           .completion = now};
      run.created = now - 1min;
      runs.insert(runs.begin(), run);
    }
    const Retention retention = DecideRetention(schedule, runs, bounds, now);
    std::set<std::string> removed;
    for (const kube::CreatedRun& run : retention.remove) removed.insert(run.name);
    std::size_t newer = 0;
    for (const kube::CreatedRun& run : runs) {
      const bool due = ++newer > 40 || *run.completion + 3h <= now;
      ASSERT_EQ(removed.contains(run.name), due) << run.name;
    }
    std::erase_if(runs, [&](const kube::CreatedRun& run) { return removed.contains(run.name); });
    ASSERT_EQ(retention.look_again.has_value(), !runs.empty());
    for (const kube::CreatedRun& run : runs)
      ASSERT_GE(*run.completion + 3h - now, *retention.look_again) << "it would look too late";
    now += retention.look_again.value_or(10min);
  }
}

}  // namespace
}  // namespace strobe::policy
