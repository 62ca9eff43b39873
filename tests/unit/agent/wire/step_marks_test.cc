#include "agent/wire/step_marks.h"

#include <gmock/gmock.h>

#include <memory>
#include <thread>
#include <vector>

namespace strobe::wire {
namespace {

using testing::ElementsAre;

class StepMarksTest : public testing::Test {
 protected:
  std::vector<std::int64_t> Numbers(std::size_t loop) {
    std::vector<std::int64_t> numbers;
    ForEachStep(header_->step_loops[loop],
                [&](const ReportedStep& step) { numbers.push_back(step.number); });
    return numbers;
  }
  // As in a ring file: zeroed memory.
  const std::unique_ptr<FileHeader> header_ = std::make_unique<FileHeader>();
};

TEST_F(StepMarksTest, TheLastStepsOfALoopAreKnown) {
  for (int i = 0; i < 40; ++i) BeginStep(*header_, "train", i, 1000 + static_cast<unsigned>(i));
  const std::vector<std::int64_t> numbers = Numbers(0);
  ASSERT_EQ(numbers.size(), kStepMarks);
  EXPECT_EQ(numbers.front(), 24);
  EXPECT_EQ(numbers.back(), 39);
}

TEST_F(StepMarksTest, AStepEndsUnderItsNumber) {
  const std::uint64_t step = BeginStep(*header_, "train", 7, 1000);
  std::vector<ReportedStep> told;
  const auto read = [&] {
    told.clear();
    ForEachStep(header_->step_loops[0], [&](const ReportedStep& s) { told.push_back(s); });
  };
  read();
  EXPECT_EQ(told.at(0).ended_ns, 0u);
  EndStep(*header_, step, 1500);
  read();
  EXPECT_EQ(told.at(0).began_ns, 1000u);
  EXPECT_EQ(told.at(0).ended_ns, 1500u);
  EndStep(*header_, 0, 1);
  EndStep(*header_, ~0ull, 1);
}

TEST_F(StepMarksTest, LoopsAreToldApartUntilThereAreTooMany) {
  BeginStep(*header_, "train", 1, 10);
  BeginStep(*header_, "eval", 100, 20);
  BeginStep(*header_, "train", 2, 30);
  EXPECT_THAT(Numbers(0), ElementsAre(1, 2));
  EXPECT_THAT(Numbers(1), ElementsAre(100));
  EXPECT_NE(BeginStep(*header_, "c", 1, 40), 0u);
  EXPECT_NE(BeginStep(*header_, "d", 1, 40), 0u);
  EXPECT_EQ(BeginStep(*header_, "e", 1, 40), 0u);
}

TEST_F(StepMarksTest, LongNamesAreCut) {
  const std::string name(100, 'n');
  BeginStep(*header_, name, 1, 10);
  BeginStep(*header_, name + "more", 2, 20);
  EXPECT_THAT(Numbers(0), ElementsAre(1, 2));
  EXPECT_EQ(std::string(header_->step_loops[0].name, kLoopNameBytes),
            name.substr(0, kLoopNameBytes));
}

TEST_F(StepMarksTest, ThreadsMayTellStepsOfOneLoopWhileSomebodyReads) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> tellers;
  for (int thread = 0; thread < 2; ++thread) {
    tellers.emplace_back([&, thread] {
      for (int i = 0; i < 20'000; ++i)
        EndStep(*header_, BeginStep(*header_, "train", 2 * i + thread, 5), 6);
      stop = true;
    });
  }
  while (!stop) {
    ForEachStep(header_->step_loops[0], [&](const ReportedStep& step) {
      EXPECT_EQ(step.began_ns, 5u);
      EXPECT_LT(step.number, 40'000);
    });
  }
  for (std::thread& teller : tellers) teller.join();
  EXPECT_EQ(header_->step_loops[0].begun.load(), 40'000u);
}

}  // namespace
}  // namespace strobe::wire
