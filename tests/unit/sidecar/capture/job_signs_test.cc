#include "sidecar/capture/job_signs.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace strobe::session {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::SizeIs;

v1::SignRule SlowerRule(std::uint32_t percent, std::uint32_t steps) {
  v1::SignRule rule;
  rule.set_id("t/StepsSlower");
  rule.set_kind(v1::SIGN_STEPS_SLOWER);
  rule.set_percent(percent);
  rule.set_steps(steps);
  return rule;
}

v1::SignRule NoStepRule(Nanos duration) {
  v1::SignRule rule;
  rule.set_id("t/NoStep");
  rule.set_kind(v1::SIGN_NO_STEP);
  rule.set_duration_ns(duration.count());
  return rule;
}

v1::SignRule MemoryRule(std::uint32_t percent) {
  v1::SignRule rule;
  rule.set_id("t/MemoryNearLimit");
  rule.set_kind(v1::SIGN_MEMORY_NEAR_LIMIT);
  rule.set_percent(percent);
  return rule;
}

// A program whose n-th step takes `step(n)`. It tells its steps as programs do.
class StepTeller {
 public:
  explicit StepTeller(std::function<Nanos(std::int64_t)> step, std::string loop = "train",
                      std::string process = "python 7")
      : step_(std::move(step)), loop_(std::move(loop)), process_(std::move(process)) {}

  v1::StepPace At(MonoTime now, WallTime wall) {
    while (next_ <= now) {
      begun_.push_back(next_);
      if (begun_.size() > 17) begun_.erase(begun_.begin());
      next_ += step_(++number_);
    }
    v1::StepPace pace;
    pace.set_loop(loop_);
    pace.set_process(process_);
    pace.set_number(number_);
    pace.set_began_ns(ToUnixNanos(wall - (now - begun_.back())));
    std::vector<std::int64_t> periods;
    for (std::size_t i = 1; i < begun_.size(); ++i)
      periods.push_back((begun_[i] - begun_[i - 1]).count());
    std::sort(periods.begin(), periods.end());
    if (!periods.empty()) pace.set_period_ns(periods[periods.size() / 2]);
    return pace;
  }

 private:
  const std::function<Nanos(std::int64_t)> step_;
  const std::string loop_, process_;
  std::vector<MonoTime> begun_;
  MonoTime next_{};
  std::int64_t number_ = -1;
};

// Looks at the programs each second, a little irregularly, as a busy machine does.
class SignLooks {
 public:
  explicit SignLooks(std::vector<v1::SignRule> rules) { rules_.Set(rules); }

  std::vector<FoundSign> Until(MonoTime end, std::vector<StepTeller*> programs,
                               std::optional<SeenMemory> memory = std::nullopt) {
    std::vector<FoundSign> all;
    while (now_ < end) {
      now_ += kLookForSigns + Nanos{std::uniform_int_distribution<int>(0, 30'000'000)(random_)};
      const WallTime wall = wall_ + now_.time_since_epoch();
      std::vector<v1::StepPace> told;
      for (StepTeller* program : programs) told.push_back(program->At(now_, wall));
      for (FoundSign& sign : rules_.Look(told, memory, now_, wall)) all.push_back(std::move(sign));
    }
    return all;
  }
  void SetWallClock(Nanos by) { wall_ += by; }
  MonoTime now() const { return now_; }
  JobSignRules& rules() { return rules_; }

 private:
  JobSignRules rules_;
  std::mt19937_64 random_{7};
  MonoTime now_{};
  WallTime wall_{1'700'000'000s};
};

MonoTime Time(Nanos since_start) { return MonoTime{since_start}; }

// Two hours of a real job: steps that vary, and what makes single ones, or a few, take long.
std::function<Nanos(std::int64_t)> NoisyJob(std::uint64_t seed, Nanos base) {
  auto random = std::make_shared<std::mt19937_64>(seed);
  const double spread = std::array{0.01, 0.05, 0.12, 0.2}[seed % 4];
  const bool has_buckets = seed % 3 == 0;  // Batches of two lengths.
  auto busy = std::make_shared<int>(0);
  return [=](std::int64_t number) {
    const auto one_in = [&](int n) {
      return std::uniform_int_distribution<int>(1, n)(*random) == 1;
    };
    double ns = static_cast<double>(base.count());
    if (has_buckets && one_in(3)) ns *= 1.8;
    ns *= std::lognormal_distribution<double>(0, spread)(*random);
    // The machine's other work slows a few steps down.
    if (one_in(2000)) *busy = std::uniform_int_distribution<int>(1, 5)(*random);
    if (*busy > 0) {
      --*busy;
      ns *= 2.5;
    }
    if (one_in(50)) ns *= 1.5;                                     // The garbage collector.
    if (number < 3) ns += 20e9;                                    // Compiles.
    if (one_in(5000)) ns += 8e9;                                   // Compiles another shape.
    if (number % 500 == 499) ns += 15e9;                           // Evaluates.
    if (number % 3000 == 2999) ns += 40e9;                         // Saves.
    ns *= 1 + 0.05 * std::sin(static_cast<double>(number) / 700);  // Drifts.
    return Nanos{static_cast<std::int64_t>(ns)};
  };
}

TEST(JobSigns, TwoHoursOfNoiseAreNoSign) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const Nanos base = std::array<Nanos, 4>{20ms, 100ms, 600ms, 4s}[seed / 2 % 4];
    StepTeller program(NoisyJob(seed, base));
    SignLooks looks({SlowerRule(50, 10), NoStepRule(2min)});
    const std::vector<FoundSign> found = looks.Until(Time(2h), {&program});
    EXPECT_THAT(found, IsEmpty()) << "seed " << seed << ": " << found.front().sign.DebugString();
  }
}

TEST(JobSigns, ASlowdownIsFoundOnceWithItsBegin) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const Nanos base = std::array<Nanos, 4>{20ms, 100ms, 600ms, 4s}[seed % 4];
    const auto noise = NoisyJob(seed, base);
    const MonoTime onset = Time(20min);
    MonoTime at{};
    StepTeller program([&](std::int64_t number) {
      Nanos step = noise(number);
      if (at >= onset) {
        // Where batches differ by nature, a slowdown must be larger than that.
        step = seed % 3 == 0 ? step * 5 : step * 5 / 2 + base / 2;
      }
      at += step;
      return step;
    });
    SignLooks looks({SlowerRule(50, 10)});
    EXPECT_THAT(looks.Until(onset - 1s, {&program}), IsEmpty());
    const MonoTime deadline = onset + 15 * 5 * base + 100s;
    const std::vector<FoundSign> found = looks.Until(deadline, {&program});
    ASSERT_THAT(found, SizeIs(1)) << "seed " << seed;
    // It is never told to begin much later than it did, because the look back is for its begin.
    EXPECT_LE(found.front().began, onset + 12 * base + 60s) << "seed " << seed;
    EXPECT_GE(found.front().began, onset - 16 * 5 * base - 20s) << "seed " << seed;
    EXPECT_GT(found.front().sign.step_ns(), found.front().sign.usual_step_ns() * 3 / 2);
  }
}

TEST(JobSigns, WithoutNoiseTheBeginIsExactWithinTheMedian) {
  const MonoTime onset = Time(5min);
  MonoTime at{};
  StepTeller program([&](std::int64_t) {
    const Nanos step = at < onset ? 100ms : 200ms;
    at += step;
    return step;
  });
  SignLooks looks({SlowerRule(50, 10)});
  const std::vector<FoundSign> found = looks.Until(onset + 9s, {&program});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found.front().sign.rule(), "t/StepsSlower");
  EXPECT_EQ(found.front().sign.loop(), "train");
  EXPECT_EQ(found.front().sign.process(), "python 7");
  EXPECT_EQ(found.front().sign.usual_step_ns(), Nanos(100ms).count());
  EXPECT_EQ(found.front().sign.step_ns(), Nanos(200ms).count());
  EXPECT_LE(found.front().began, onset);
  EXPECT_GE(found.front().began, onset - 4s);
}

// Regression: a few disturbed looks among the first ones hid a slowdown for good.
TEST(JobSigns, AJobThatWasDisturbedWhenItBeganIsStillFoundSlow) {
  MonoTime at{};
  StepTeller program([&](std::int64_t) {
    const bool slow = at < Time(8s) || at >= Time(40s);
    const Nanos step = slow ? 160ms : 50ms;
    at += step;
    return step;
  });
  SignLooks looks({SlowerRule(50, 10)});
  EXPECT_THAT(looks.Until(Time(39s), {&program}), IsEmpty());
  EXPECT_THAT(looks.Until(Time(50s), {&program}), SizeIs(1));
}

TEST(JobSigns, AJobThatStaysSlowerIsOneSignAndThenUsual) {
  MonoTime at{};
  Nanos slow = 100ms;
  StepTeller program([&](std::int64_t) {
    const Nanos step = at < Time(10min) ? 100ms : slow;
    at += step;
    return step;
  });
  SignLooks looks({SlowerRule(50, 10)});
  looks.Until(Time(10min), {&program});
  slow = 200ms;
  EXPECT_THAT(looks.Until(Time(30min), {&program}), SizeIs(1));
  slow = 400ms;
  EXPECT_THAT(looks.Until(Time(50min), {&program}), SizeIs(1)) << "slower than what is usual now";
}

TEST(JobSigns, ASecondSlowdownIsASecondSign) {
  MonoTime at{};
  StepTeller program([&](std::int64_t) {
    const bool slow = (at > Time(5min) && at < Time(6min)) || (at > Time(8min) && at < Time(9min));
    const Nanos step = slow ? 300ms : 100ms;
    at += step;
    return step;
  });
  SignLooks looks({SlowerRule(50, 10)});
  EXPECT_THAT(looks.Until(Time(12min), {&program}), SizeIs(2));
}

TEST(JobSigns, TheWallClockMayBeSet) {
  StepTeller program([](std::int64_t) { return Nanos(100ms); });
  SignLooks looks({SlowerRule(10, 3), NoStepRule(5s)});
  looks.Until(Time(2min), {&program});
  looks.SetWallClock(1h);
  EXPECT_THAT(looks.Until(Time(4min), {&program}), IsEmpty());
  looks.SetWallClock(-3h);
  EXPECT_THAT(looks.Until(Time(6min), {&program}), IsEmpty());
}

v1::SignRule StalledRule(Nanos duration, std::uint32_t steps) {
  v1::SignRule rule;
  rule.set_id("t/Stalled");
  rule.set_kind(v1::SIGN_STALLED);
  rule.set_duration_ns(duration.count());
  rule.set_steps(steps);
  return rule;
}

TEST(JobSigns, AStandstillIsFoundWithinSecondsAndOnce) {
  MonoTime at{};
  StepTeller program([&](std::int64_t) {
    const Nanos step = at >= Time(1min) && at < Time(2min) ? Nanos(90s) : Nanos(100ms);
    at += step;
    return step;
  });
  SignLooks looks({StalledRule(0s, 0)});
  EXPECT_THAT(looks.Until(Time(62s), {&program}), IsEmpty());
  const std::vector<FoundSign> found = looks.Until(Time(65s), {&program});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found.front().sign.process(), "python 7");
  EXPECT_EQ(found.front().sign.usual_step_ns(), Nanos(100ms).count());
  EXPECT_LE(found.front().began, Time(1min) + 1s);
  EXPECT_THAT(looks.Until(Time(140s), {&program}), IsEmpty()) << "it lasts, and moves again";
}

TEST(JobSigns, AStandstillIsMeasuredInUsualSteps) {
  MonoTime at{};
  StepTeller program([&](std::int64_t) {
    const Nanos step = at >= Time(3min) && at < Time(4min) ? Nanos(45s) : Nanos(5s);
    at += step;
    return step;
  });
  SignLooks looks({StalledRule(0s, 0)});
  EXPECT_THAT(looks.Until(Time(10min), {&program}), IsEmpty()) << "nine steps are not ten";
}

TEST(JobSigns, FirstStepsThatCompileAreNoStandstill) {
  StepTeller program([](std::int64_t number) { return number == 3 ? Nanos(60s) : Nanos(100ms); });
  SignLooks looks({StalledRule(0s, 0)});
  EXPECT_THAT(looks.Until(Time(5min), {&program}), IsEmpty());
}

TEST(JobSigns, StepsThatDoNotComeAreASignOfTheirProcess) {
  MonoTime train_at{};
  StepTeller train([&](std::int64_t) {
    const Nanos step = train_at >= Time(5min) && train_at < Time(6min) ? Nanos(90s) : Nanos(100ms);
    train_at += step;
    return step;
  });
  MonoTime eval_at{};
  StepTeller eval(
      [&](std::int64_t) {
        eval_at += 50ms;
        return Nanos(50ms);
      },
      "eval");
  StepTeller other([](std::int64_t) { return Nanos(100ms); }, "train", "python 8");
  {
    SignLooks looks({NoStepRule(30s)});
    const std::vector<FoundSign> found = looks.Until(Time(10min), {&train, &other});
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found.front().sign.process(), "python 7");
    EXPECT_LE(found.front().began, Time(5min) + 1s);
    EXPECT_GE(found.front().began, Time(5min) - 1s);
  }
  train_at = {};
  StepTeller again([&](std::int64_t) {
    const Nanos step = train_at >= Time(5min) && train_at < Time(6min) ? Nanos(90s) : Nanos(100ms);
    train_at += step;
    return step;
  });
  SignLooks looks({NoStepRule(30s)});
  EXPECT_THAT(looks.Until(Time(10min), {&again, &eval}), IsEmpty()) << "it evaluates meanwhile";
}

TEST(JobSigns, AProcessThatHasEndedOrHasJustBegunIsNotMissed) {
  StepTeller program([](std::int64_t number) { return number < 10 ? Nanos(1s) : Nanos(10min); });
  SignLooks looks({NoStepRule(5s)});
  EXPECT_THAT(looks.Until(Time(2min), {&program}), IsEmpty()) << "it made only ten steps";
  StepTeller steady([](std::int64_t) { return Nanos(100ms); });
  SignLooks others({NoStepRule(5s)});
  others.Until(Time(1min), {&steady});
  EXPECT_THAT(others.Until(Time(2min), {}), IsEmpty()) << "it has ended";
}

TEST(JobSigns, MemoryNearItsLimitIsOneSignUntilThereIsRoomAgain) {
  SignLooks looks({MemoryRule(90)});
  const auto use = [](std::uint64_t percent) { return SeenMemory{percent << 20, 100 << 20}; };
  EXPECT_THAT(looks.Until(Time(10s), {}, use(89)), IsEmpty());
  EXPECT_THAT(looks.Until(Time(12s), {}, use(95)), IsEmpty()) << "a moment";
  EXPECT_THAT(looks.Until(Time(14s), {}, use(80)), IsEmpty());
  const std::vector<FoundSign> found = looks.Until(Time(30s), {}, use(93));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found.front().sign.memory_used(), 93u << 20);
  EXPECT_THAT(looks.Until(Time(40s), {}, use(87)), IsEmpty());
  EXPECT_THAT(looks.Until(Time(50s), {}, use(93)), IsEmpty()) << "it was hardly gone";
  EXPECT_THAT(looks.Until(Time(60s), {}, use(50)), IsEmpty());
  EXPECT_THAT(looks.Until(Time(70s), {}, use(93)), SizeIs(1));
  EXPECT_THAT(looks.Until(Time(80s), {}, SeenMemory{1, 0}), IsEmpty()) << "no limit";
}

TEST(JobSigns, StepTimesAreToldSinceTheLastCall) {
  v1::SignRule rule = SlowerRule(50, 10);
  rule.set_kind(v1::SIGN_SLOWER_THAN_OTHERS);
  StepTeller program([](std::int64_t) { return Nanos(100ms); });
  SignLooks looks({rule});
  looks.Until(Time(60s), {&program});
  EXPECT_THAT(looks.rules().TakeStepTimes(), SizeIs(1));
  EXPECT_THAT(looks.rules().TakeStepTimes(), IsEmpty());
  looks.Until(Time(70s), {&program});
  const std::vector<v1::StepTime> times = looks.rules().TakeStepTimes();
  ASSERT_THAT(times, SizeIs(1));
  EXPECT_EQ(times.front().step_ns(), Nanos(100ms).count());
  EXPECT_NEAR(times.front().steps(), 100, 15);
}

TEST(JobSigns, WhatProgramsTellIsBoundedWhateverItIs) {
  SignLooks looks({SlowerRule(50, 10), NoStepRule(5s)});
  std::mt19937_64 random(3);
  for (int look = 0; look < 300; ++look) {
    std::vector<v1::StepPace> told;
    for (int i = 0; i < 200; ++i) {
      v1::StepPace& pace = told.emplace_back();
      pace.set_loop(std::to_string(random() % 300));
      pace.set_number(static_cast<std::int64_t>(random()) / 4);
      pace.set_began_ns(static_cast<std::int64_t>(random() >> 2));
      pace.set_period_ns(static_cast<std::int64_t>(random()) / 4);
    }
    EXPECT_LE(
        looks.rules()
            .Look(told, SeenMemory{random(), random()}, Time(look * 1s), WallTime{1'700'000'000s})
            .size(),
        kMaxSigns);
  }
  EXPECT_LE(looks.rules().TakeStepTimes().size(), kMaxStepTimes);
}

TEST(JobSigns, RulesThatStayKeepWhatTheyKnow) {
  MonoTime at{};
  StepTeller program([&](std::int64_t) {
    const Nanos step = at < Time(2min) ? 100ms : 300ms;
    at += step;
    return step;
  });
  SignLooks looks({SlowerRule(50, 10)});
  EXPECT_THAT(looks.Until(Time(140s), {&program}), SizeIs(1));
  looks.rules().Set(std::vector{SlowerRule(50, 10), NoStepRule(1h)});
  EXPECT_THAT(looks.Until(Time(160s), {&program}), IsEmpty()) << "it was told";
}

}  // namespace
}  // namespace strobe::session
