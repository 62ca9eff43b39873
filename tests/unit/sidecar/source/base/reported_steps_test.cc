#include "sidecar/source/base/reported_steps.h"

#include <gmock/gmock.h>

#include <cstring>
#include <memory>

#include "agent/wire/step_marks.h"

namespace strobe::source {
namespace {

std::vector<v1::StepPace> Told(const wire::FileHeader& header) {
  std::vector<v1::StepPace> told;
  AddReportedSteps(header.step_loops, ReportedByAgent("train.py 7"), 1'000'000, told);
  return told;
}

TEST(AddReportedSteps, TellsTheLastStepAndTheMedianPace) {
  const auto header = std::make_unique<wire::FileHeader>();
  EXPECT_TRUE(Told(*header).empty());
  for (const auto& [number, at] :
       {std::pair(5, 1000u), std::pair(6, 1100u), std::pair(7, 1900u), std::pair(8, 2000u)})
    wire::EndStep(*header, wire::BeginStep(*header, "train", number, at), at + 50);
  wire::BeginStep(*header, "train", 9, 2110);
  const std::vector<v1::StepPace> told = Told(*header);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].loop(), "train");
  EXPECT_EQ(told[0].process(), "train.py 7");
  EXPECT_EQ(told[0].number(), 9);
  EXPECT_EQ(told[0].began_ns(), 1'002'110);
  EXPECT_EQ(told[0].ended_ns(), 0) << "it runs";
  EXPECT_EQ(told[0].period_ns(), 110) << "one slow step does not count";
  EXPECT_TRUE(TellsSteps(header->step_loops, "train"));
  EXPECT_FALSE(TellsSteps(header->step_loops, "eval"));
}

TEST(AddReportedSteps, ALoopThatBeginsAgainHasNoPaceBetween) {
  const auto header = std::make_unique<wire::FileHeader>();
  wire::BeginStep(*header, "train", 90, 1000);
  wire::BeginStep(*header, "train", 0, 9000);
  EXPECT_EQ(Told(*header)[0].period_ns(), 0);
  wire::BeginStep(*header, "train", 10, 10'000);
  EXPECT_EQ(Told(*header)[0].period_ns(), 100) << "numbers may leave some out";
}

TEST(AddReportedSteps, TellsTheFastestAndTheSlowestStepsInARow) {
  const auto header = std::make_unique<wire::FileHeader>();
  std::uint64_t at = 1000;
  std::int64_t number = 0;
  const auto steps = [&](int count, std::uint64_t each) {
    for (int i = 0; i < count; ++i) wire::BeginStep(*header, "engine", ++number, at += each);
  };
  steps(4, 10);
  EXPECT_EQ(Told(*header)[0].slowest_ns(), 0) << "these are too few";
  steps(2, 10);
  steps(1, 5000);
  steps(3, 10);
  steps(4, 1000);
  const v1::StepPace pace = Told(*header).at(0);
  EXPECT_EQ(pace.fastest_ns(), 10);
  EXPECT_EQ(pace.slowest_ns(), (5000 + 3 * 10) / 4);
}

TEST(AddEndedSteps, TellsEachStepOnceAndThatSomeMayBeMissing) {
  const auto header = std::make_unique<wire::FileHeader>();
  std::uint64_t until = 0;
  const auto look = [&] {
    session::JobSigns signs;
    AddEndedSteps(header->step_loops[0], "train.py 7", until, signs);
    return signs;
  };
  std::uint64_t at = 1000;
  const auto step = [&] {
    wire::EndStep(*header, wire::BeginStep(*header, "train", 1, at), at + 50);
    at += 100;
  };
  EXPECT_TRUE(look().steps.empty());
  step();
  step();
  wire::BeginStep(*header, "train", 3, at);
  const session::JobSigns first = look();
  ASSERT_EQ(first.steps.size(), 2u) << "the third one runs";
  EXPECT_EQ(first.steps[0].loop, "train.py 7 train");
  EXPECT_EQ(first.steps[1].end - first.steps[1].begin, Nanos{50});
  EXPECT_TRUE(look().steps.empty()) << "they are known";
  for (std::size_t i = 0; i < 2 * wire::kStepMarks; ++i) step();
  const session::JobSigns late = look();
  EXPECT_TRUE(late.steps_missing);
  EXPECT_EQ(late.steps.size(), wire::kStepMarks);
}

TEST(AddEndedSteps, AStepOfYearsIsForged) {
  const auto header = std::make_unique<wire::FileHeader>();
  std::uint64_t until = 0;
  wire::EndStep(*header, wire::BeginStep(*header, "train", 1, 1000), std::uint64_t{1} << 59);
  session::JobSigns signs;
  AddEndedSteps(header->step_loops[0], "train.py 7", until, signs);
  EXPECT_TRUE(signs.steps.empty());
}

TEST(AddReportedSteps, WhateverAProgramWritesIsBounded) {
  const auto header = std::make_unique<wire::FileHeader>();
  std::memset(static_cast<void*>(header->step_loops.data()), 0xff, sizeof header->step_loops);
  EXPECT_TRUE(Told(*header).empty());
  for (wire::StepLoop& loop : header->step_loops) {
    loop.begun = 3;
    for (wire::StepMark& mark : loop.marks) {
      mark.number = std::int64_t{1} << 60;
      mark.began_ns = 1;
      mark.ended_ns = 0;
    }
  }
  for (const v1::StepPace& pace : Told(*header)) EXPECT_LE(pace.loop().size(), 48u);
}

TEST(StepOf, ReadsNameAndNumber) {
  const auto step = StepOf("train#_r=1,step_num=7#");
  ASSERT_TRUE(step);
  EXPECT_EQ(step->loop, "train");
  EXPECT_EQ(step->number, 7);
  EXPECT_EQ(StepOf("train#step_num=seven#")->number, std::nullopt);
  EXPECT_FALSE(StepOf("train"));
  EXPECT_FALSE(StepOf("step_num"));
}

}  // namespace
}  // namespace strobe::source
