#include "operator/schedule/schedule_reconciler.h"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "common/base/strings.h"
#include "operator/schedule/cron.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::schedule {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// What the API server stores, and what a capture would make of the runs.
struct ScheduleApi {
  struct Run {
    kube::CreatedRun run;
    WallTime ends;
    kube::RunState result;
  };
  std::vector<ProfileSchedule> versions;  // The last one is the present one.
  int version = 0;
  std::map<std::string, Run> runs;
  std::map<std::string, int> created;  // How often each run was created.
  std::vector<std::string> events;
  // The runs that are created from now on.
  Nanos length = 10min;
  kube::RunState result = kube::RunState::kSucceeded;
  std::optional<kube::RunRefusal> refusal;
  std::optional<Nanos> look_at_seal;  // What KeepSealed returns.
  int looks_at_seal = 0;

  const ProfileSchedule& schedule() const { return versions.back(); }
  void Put(ProfileSchedule schedule) {
    schedule.resource_version = StrCat(++version);
    versions.push_back(std::move(schedule));
  }
  void EndRuns(WallTime now) {
    for (auto& [name, each] : runs) {
      if (each.run.state != kube::RunState::kUnfinished ||
          (each.ends > now && !each.run.cancelling))
        continue;
      each.run.state = each.run.cancelling ? kube::RunState::kCancelled : each.result;
      each.run.completion = now;
    }
  }
};

// One operator: its cache may be old, and it may end at any call, before or after the server has
// carried it out.
class ScheduleClusterFake final : public Cluster {
 public:
  ScheduleClusterFake(const Clock& clock, ScheduleApi& api, std::size_t cached)
      : clock_(clock), api_(api), cached_(cached) {}

  // The operator ends at the call with this number.
  void EndAt(int call, bool carried_out) {
    calls_left_ = call;
    carried_out_ = carried_out;
  }
  bool ended() const { return calls_left_ == 0; }
  void CatchUp() { cached_ = api_.versions.size() - 1; }

  absl::StatusOr<ProfileSchedule> GetSchedule(const std::string& key) override {
    if (key != "ml/s" || api_.versions.empty()) return absl::NotFoundError(key);
    return api_.versions.at(cached_);
  }
  absl::StatusOr<std::vector<kube::CreatedRun>> RunsOf(const ProfileSchedule&) override {
    std::vector<kube::CreatedRun> runs;
    for (const auto& [name, each] : api_.runs) runs.push_back(each.run);
    return runs;
  }
  std::optional<policy::SeriesBounds> BoundsOf(const std::string&) override {
    return policy::SeriesBounds{};
  }
  absl::StatusOr<std::optional<kube::RunRefusal>> StartRun(const ProfileSchedule& schedule,
                                                           DueRun& due) override {
    std::optional<kube::RunRefusal> refusal;
    const absl::Status called = Call([&]() -> absl::Status {
      if (schedule.resource_version != api_.schedule().resource_version)
        return absl::AbortedError("old");
      refusal = api_.refusal;
      if (refusal || api_.runs.contains(due.name)) return absl::OkStatus();
      ++api_.created[due.name];
      api_.runs[due.name] = {
          {.name = due.name, .uid = due.name}, clock_.WallNow() + api_.length, api_.result};
      return absl::OkStatus();
    });
    if (!called.ok()) return called;
    return refusal;
  }
  absl::Status CancelRun(const ProfileSchedule&, const kube::CreatedRun& run) override {
    return Call([&] {
      if (api_.runs.contains(run.name)) api_.runs[run.name].run.cancelling = true;
      return absl::OkStatus();
    });
  }
  absl::Status DeleteRun(const ProfileSchedule&, const kube::CreatedRun& run) override {
    return Call([&] {
      api_.runs.erase(run.name);
      return absl::OkStatus();
    });
  }
  absl::Status WriteStatus(const ProfileSchedule& schedule, const ScheduleStatus& status) override {
    return Call([&]() -> absl::Status {
      if (schedule.resource_version != api_.schedule().resource_version)
        return absl::AbortedError("old");
      ProfileSchedule written = api_.schedule();
      written.status = status;
      api_.Put(std::move(written));
      CatchUp();
      return absl::OkStatus();
    });
  }
  std::optional<Nanos> KeepSealed(const ProfileSchedule&) override {
    ++api_.looks_at_seal;
    return api_.look_at_seal;
  }
  void RecordEvent(const ProfileSchedule&, bool, const std::string& reason, const std::string&,
                   const std::string& note) override {
    if (!ended()) api_.events.push_back(StrCat(reason, ": ", note));
  }

 private:
  template <typename Effect>
  absl::Status Call(const Effect& effect) {
    if (calls_left_ == 0) return absl::UnavailableError("the operator has ended");
    if (calls_left_ > 0 && --calls_left_ == 0) {
      if (carried_out_) (void)effect();
      return absl::UnavailableError("the operator ends");
    }
    return effect();
  }

  const Clock& clock_;
  ScheduleApi& api_;
  std::size_t cached_;
  int calls_left_ = -1;
  bool carried_out_ = false;
};

class CountedRuns final : public Metrics {
 public:
  void RunsCounted(const std::string&, std::string_view result, std::int64_t count) override {
    counts[std::string(result)] += count;
  }
  std::map<std::string, std::int64_t> counts;
};

WallTime ScheduleTime(const std::string& text) {
  WallTime time{};
  EXPECT_TRUE(ParseRfc3339(text, time)) << text;
  return time;
}

ProfileSchedule MakeSchedule(const Timing& timing, WallTime created) {
  ProfileSchedule schedule;
  schedule.ns = "ml";
  schedule.name = "s";
  schedule.uid = "uid";
  schedule.created = created;
  schedule.timing = timing;
  schedule.keep_succeeded = schedule.keep_failed = 2;
  return schedule;
}

class ScheduleReconcilerTest : public testing::Test {
 protected:
  ScheduleReconcilerTest() { api_.Put(MakeSchedule({.cron = "@hourly"}, time_.WallNow())); }

  ScheduleStatus Reconcile() {
    api_.EndRuns(time_.WallNow());
    const auto result = reconciler_.Reconcile("ml/s");
    EXPECT_TRUE(result.ok()) << result.status();
    return api_.schedule().status;
  }

  SimulatedTime time_{ScheduleTime("2024-11-01T00:10:00Z")};
  ScheduleApi api_;
  ScheduleClusterFake cluster_{time_, api_, 0};
  CountedRuns metrics_;
  Reconciler reconciler_{time_, cluster_, metrics_};
};

TEST_F(ScheduleReconcilerTest, ARunIsStartedCountedToldAndRemoved) {
  Reconcile();
  EXPECT_THAT(api_.events, IsEmpty());
  for (int hour = 0; hour < 4; ++hour) {
    time_.Advance(1h);
    Reconcile();
  }
  const std::size_t versions = api_.versions.size();
  Reconcile();
  EXPECT_EQ(api_.versions.size(), versions) << "nothing to write";
  EXPECT_THAT(api_.runs, SizeIs(3)) << "two that succeeded, and one that is active";
  EXPECT_EQ(api_.events.front(), "RunStarted: started s-20241101-010000");
  EXPECT_THAT(metrics_.counts,
              ElementsAre(testing::Pair("started", 4), testing::Pair("succeeded", 3)));
}

TEST_F(ScheduleReconcilerTest, ARunThatIsRefusedIsSkippedWithTheReason) {
  Reconcile();
  api_.refusal = kube::RunRefusal{"NotAllowed", "jane may not profile"};
  time_.Advance(1h);
  const ScheduleStatus status = Reconcile();
  EXPECT_EQ(status.skipped, 1);
  EXPECT_EQ(status.last_skip->reason, "NotAllowed");
  EXPECT_THAT(status.active, IsEmpty());
  EXPECT_THAT(api_.events.back(),
              HasSubstr("RunSkipped: the run of 2024-11-01T01:00:00Z was skipped: "
                        "NotAllowed: jane may not profile"));
  api_.refusal.reset();
  time_.Advance(1h);
  EXPECT_EQ(Reconcile().started, 1) << "asked again at each run";
}

TEST_F(ScheduleReconcilerTest, ReplaceCancelsTheRunBefore) {
  ProfileSchedule schedule = api_.schedule();
  schedule.concurrency = ConcurrencyPolicy::kReplace;
  api_.Put(schedule);
  cluster_.CatchUp();
  api_.length = 10h;
  Reconcile();
  time_.Advance(1h);
  Reconcile();
  time_.Advance(1h);
  EXPECT_THAT(Reconcile().active, SizeIs(2));
  const ScheduleStatus status = Reconcile();
  EXPECT_THAT(status.active,
              ElementsAre(ActiveRun{"s-20241101-020000", ScheduleTime("2024-11-01T02:00:00Z")}));
  EXPECT_EQ(status.cancelled, 1);
}

TEST_F(ScheduleReconcilerTest, ReplaceCancelsTheRunBeforeAlsoIfAnyCallFails) {
  ProfileSchedule schedule = api_.schedule();
  schedule.concurrency = ConcurrencyPolicy::kReplace;
  api_.Put(schedule);
  cluster_.CatchUp();
  api_.length = 100h;
  Reconcile();
  time_.Advance(1h);
  Reconcile();
  for (int call = 1; call <= 3; ++call) {  // The start, the write of the status, the cancellation.
    time_.Advance(1h);
    api_.EndRuns(time_.WallNow());
    cluster_.EndAt(call, call == 1);
    EXPECT_FALSE(reconciler_.Reconcile("ml/s").ok());
    EXPECT_TRUE(cluster_.ended());
    cluster_.EndAt(-1, false);
    Reconcile();
    EXPECT_THAT(Reconcile().active, SizeIs(1)) << "call " << call;
    EXPECT_EQ(api_.schedule().status.cancelled, call);
  }
  EXPECT_EQ(api_.schedule().status.started, 4);
}

// Regression: 200 schedules with short intervals made the operator create requests as fast as the
// API server could.
TEST_F(ScheduleReconcilerTest, ANamespaceDecidesOnOneTimeASecond) {
  const auto started = [this](int schedules) {
    int count = 0;
    for (int i = 0; i < schedules; ++i) {
      api_.runs.clear();
      api_.Put(MakeSchedule({.cron = "@hourly"}, time_.WallNow() - 90min));
      cluster_.CatchUp();
      Reconcile();
      count += static_cast<int>(api_.runs.size());
    }
    return count;
  };
  EXPECT_EQ(started(100), 60);
  const auto later = reconciler_.Reconcile("ml/s");
  ASSERT_TRUE(later.ok());
  EXPECT_EQ(later->requeue_after, Nanos{5s});
  EXPECT_EQ(api_.schedule().status.skipped, 0) << "and what is due stays due";
  time_.Advance(5s);
  EXPECT_EQ(started(100), 5);
  time_.Advance(1h);
  EXPECT_EQ(started(100), 60);
}

TEST_F(ScheduleReconcilerTest, AScheduleThatIsGoneOrBeingDeletedStartsNothing) {
  EXPECT_TRUE(reconciler_.Reconcile("ml/other").ok());
  ProfileSchedule schedule = api_.schedule();
  schedule.deleting = true;
  api_.Put(schedule);
  cluster_.CatchUp();
  time_.Advance(2h);
  Reconcile();
  EXPECT_THAT(api_.runs, IsEmpty());
}

TEST_F(ScheduleReconcilerTest, TheSealOfASuspendedScheduleIsKeptToo) {
  ProfileSchedule schedule = api_.schedule();
  schedule.suspend = true;
  api_.Put(schedule);
  cluster_.CatchUp();
  api_.look_at_seal = 10min;
  const auto result = reconciler_.Reconcile("ml/s");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->requeue_after, Nanos{10min});
  EXPECT_EQ(api_.looks_at_seal, 1);
}

TEST_F(ScheduleReconcilerTest, LookingAtTheSealDelaysNoRun) {
  api_.look_at_seal = 10h;
  const auto result = reconciler_.Reconcile("ml/s");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LE(result->requeue_after, Nanos{50min});
}

// When a cron expression is due, minute by minute: not as CronExpression finds it.
std::set<WallTime> DueTimes(const ProfileSchedule& schedule, WallTime until) {
  std::set<WallTime> due;
  if (schedule.timing.interval) {
    const ScheduleTimes times =
        *ScheduleTimes::Make(schedule.timing, schedule.created, schedule.uid);
    for (WallTime time = *times.Next(schedule.created); time <= until; time = *times.Next(time))
      due.insert(time);
    return due;
  }
  const CronExpression cron = *CronExpression::Parse(schedule.timing.cron);
  const absl::TimeZone zone = *FindTimeZone(schedule.timing.time_zone);
  WallTime from{}, next{};  // No time in [from, next) matches.
  const auto shown = [&](WallTime time) {
    const absl::CivilSecond local = zone.At(absl::FromUnixNanos(ToUnixNanos(time))).cs;
    // This local time in a zone without changes of the clock.
    const absl::Time flat = absl::FromCivil(local, absl::UTCTimeZone());
    const WallTime here = FromUnixNanos(absl::ToUnixNanos(flat));
    if (here < from || here >= next) {
      from = here;
      next = *cron.Next(here - 1s, absl::UTCTimeZone());
    }
    return here == next;
  };
  for (WallTime time = std::chrono::ceil<std::chrono::minutes>(schedule.created + 1s);
       time <= until; time += 1min) {
    if (shown(time)) due.insert(time);
  }
  return due;
}

struct Year {
  const char* name;
  Timing timing;
  ConcurrencyPolicy concurrency;
  std::optional<Nanos> deadline;
};

// A year in which operators end at any call, are away, follow each other with old caches, and have
// their clocks set.
class SimulatedYear {
 public:
  SimulatedYear(const Year& year, unsigned seed) : random_(seed) {
    ProfileSchedule schedule = MakeSchedule(year.timing, time_.WallNow());
    schedule.concurrency = year.concurrency;
    schedule.starting_deadline = year.deadline;
    api_.Put(std::move(schedule));
  }

  void Run() {
    const WallTime end = time_.WallNow() + 366 * 24h;
    while (time_.WallNow() < end) LiveOfOneOperator(end);
    // The last operator has no accidents.
    for (int i = 0; i < 5; ++i) {
      ScheduleClusterFake cluster(time_, api_, api_.versions.size() - 1);
      api_.EndRuns(time_.WallNow());
      EXPECT_TRUE(Reconciler(time_, cluster, metrics_).Reconcile("ml/s").ok());
      time_.Advance(2h);
    }
  }

  void Check() const {
    const ScheduleStatus& status = api_.schedule().status;
    const std::set<WallTime> due = DueTimes(api_.schedule(), *status.decided_until);
    for (const auto& [name, times] : api_.created) EXPECT_EQ(times, 1) << name;
    std::set<std::string> names;
    for (const WallTime time : due) names.insert(RunNameOf("s", time));
    for (const auto& [name, times] : api_.created) EXPECT_TRUE(names.contains(name)) << name;
    EXPECT_EQ(status.started, static_cast<std::int64_t>(api_.created.size()));
    EXPECT_EQ(status.started + status.skipped, static_cast<std::int64_t>(due.size()))
        << "each run exactly once, or said why not";
    EXPECT_EQ(status.succeeded + status.failed + status.cancelled +
                  static_cast<std::int64_t>(status.active.size()),
              status.started);
    EXPECT_GT(status.started, static_cast<std::int64_t>(due.size() / 4));
    EXPECT_GT(status.skipped, 0);
    EXPECT_LE(api_.runs.size(), 4 + kMaxActiveRuns);
    EXPECT_GT(operators_, 50);
    // Shown in the test's XML report, to compare runs.
    testing::Test::RecordProperty("due", static_cast<int>(due.size()));
    testing::Test::RecordProperty("started", static_cast<int>(status.started));
    testing::Test::RecordProperty("skipped", static_cast<int>(status.skipped));
    testing::Test::RecordProperty("operators", operators_);
  }

 private:
  bool Chance(int of) { return random_() % static_cast<unsigned>(of) == 0; }
  Nanos Up(Nanos most) { return most * (random_() % 1000) / 1000; }

  void LiveOfOneOperator(WallTime end) {
    ++operators_;
    // Its first list may be as old as the API server's own cache.
    const std::size_t newest = api_.versions.size() - 1;
    ScheduleClusterFake cluster(
        time_, api_, Chance(2) ? newest : newest - std::min<std::size_t>(newest, random_() % 4));
    Reconciler reconciler(time_, cluster, metrics_);
    cluster.EndAt(1 + static_cast<int>(random_() % 60), Chance(2));
    while (!cluster.ended() && time_.WallNow() < end) {
      api_.length = 1min + Up(90min);
      api_.result = Chance(5) ? kube::RunState::kFailed : kube::RunState::kSucceeded;
      api_.EndRuns(time_.WallNow());
      const absl::StatusOr<kube::ReconcileResult> result = reconciler.Reconcile("ml/s");
      if (cluster.ended()) break;
      if (!result.ok()) {  // Until the watch brings what has changed.
        if (Chance(3)) cluster.CatchUp();
        time_.Advance(1s);
        continue;
      }
      const std::optional<WallTime> next = api_.schedule().status.next_schedule;
      const Nanos until_next = next ? *next - time_.WallNow() : Nanos{30s};
      // Wakes up when a run is due, or because something has changed.
      time_.Advance(std::clamp<Nanos>(Chance(2) ? until_next : Up(until_next), 1s, 24h));
      if (Chance(50)) {
        const Nanos wrong = Up(50min) - 25min;
        time_.StepWall(wrong - wrong_);
        wrong_ = wrong;
      }
    }
    // Its successor may take a while to come.
    if (Chance(3)) time_.Advance(Up(Chance(10) ? Nanos{72h} : Nanos{2h}));
    api_.versions.erase(api_.versions.begin(),
                        api_.versions.end() - static_cast<std::ptrdiff_t>(
                                                  std::min<std::size_t>(api_.versions.size(), 8)));
  }

  std::mt19937 random_;
  SimulatedTime time_{ScheduleTime("2024-01-15T10:20:30Z")};
  ScheduleApi api_;
  CountedRuns metrics_;
  int operators_ = 0;
  Nanos wrong_{};  // How wrong the clock is.
};

class SimulatedYearTest : public testing::TestWithParam<Year> {};

TEST_P(SimulatedYearTest, EachRunIsStartedOnceOrSaidWhyNot) {
  SimulatedYear year(GetParam(), 22);
  year.Run();
  year.Check();
}

INSTANTIATE_TEST_SUITE_P(
    All, SimulatedYearTest,
    testing::Values(Year{"Berlin",
                         {.cron = "30 * * * *", .time_zone = "Europe/Berlin"},
                         ConcurrencyPolicy::kForbid,
                         5min},
                    Year{"NewYork",
                         {.cron = "15,45 0-5 * * *", .time_zone = "America/New_York"},
                         ConcurrencyPolicy::kReplace,
                         std::nullopt},
                    Year{"LordHowe",
                         {.cron = "*/20 1,2 * * *", .time_zone = "Australia/Lord_Howe"},
                         ConcurrencyPolicy::kAllow,
                         1h},
                    Year{"Cairo",
                         {.cron = "0 0,1 * * *", .time_zone = "Africa/Cairo"},
                         ConcurrencyPolicy::kForbid,
                         std::nullopt},
                    Year{"Interval",
                         {.interval = 47min, .jitter = 10min},
                         ConcurrencyPolicy::kForbid,
                         std::nullopt}),
    [](const auto& year) { return year.param.name; });

}  // namespace
}  // namespace strobe::schedule
