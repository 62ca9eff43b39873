#include "capture/owned_tasks.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/fakes/simulated_time.h"

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class Recorder final : public OwnedTasks::Owner {
 public:
  static std::shared_ptr<Recorder> Make(Executor& executor, std::vector<std::string>& log) {
    auto self = std::make_shared<Recorder>(executor, log);
    self->tasks.Bind(self);
    return self;
  }
  Recorder(Executor& executor, std::vector<std::string>& log) : tasks(executor), log_(log) {}
  void RunTask(const OwnedTasks::Work& work) override {
    if (!ended) work();
  }
  void Say(std::string text) { log_.push_back(std::move(text)); }

  OwnedTasks tasks;
  bool ended = false;

 private:
  std::vector<std::string>& log_;
};

class OwnedTasksTest : public testing::Test {
 protected:
  SimulatedTime time_;
  std::vector<std::string> log_;
  std::shared_ptr<Recorder> owner_ = Recorder::Make(time_, log_);
};

TEST_F(OwnedTasksTest, RunsTasksInTheOrderInWhichTheyFallDue) {
  owner_->tasks.PostAfter(2s, [this] { owner_->Say("later"); });
  owner_->tasks.Post([this] { owner_->Say("now"); });
  EXPECT_THAT(log_, IsEmpty()) << "only the executor runs them";
  time_.Advance(2s);
  EXPECT_THAT(log_, ElementsAre("now", "later"));
}

TEST_F(OwnedTasksTest, ACallbackPostsItsArguments) {
  const auto callback = owner_->tasks.OnExecutor(
      [owner = owner_.get()](std::string text) { owner->Say(std::move(text)); });
  callback(std::string("one"));
  callback(std::string("two"));
  EXPECT_THAT(log_, IsEmpty());
  time_.RunUntilIdle();
  EXPECT_THAT(log_, ElementsAre("one", "two"));
}

TEST_F(OwnedTasksTest, NothingRunsOnceTheOwnerIsGone) {
  const auto callback = owner_->tasks.OnExecutor(
      [owner = owner_.get()](std::string text) { owner->Say(std::move(text)); });
  owner_->tasks.Post([owner = owner_.get()] { owner->Say("task"); });
  owner_.reset();
  callback(std::string("callback"));
  time_.Advance(1s);
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(OwnedTasksTest, TheOwnerDecidesWhetherATaskStillRuns) {
  owner_->tasks.Post([this] { owner_->Say("task"); });
  owner_->ended = true;
  time_.RunUntilIdle();
  EXPECT_THAT(log_, IsEmpty());
}

}  // namespace
}  // namespace strobe::capture
