#include "viewer/service/access.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <stdexcept>
#include <thread>

#include "common/base/strings.h"
#include "tests/unit/viewer/service/fake_judge.h"

namespace strobe::viewer {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class AccessTest : public testing::Test {
 protected:
  std::vector<bool> Ask(const Asker& asker, const std::vector<std::string>& namespaces) {
    const auto answers = access_.MaySee(asker, namespaces);
    EXPECT_TRUE(answers.ok()) << answers.status();
    return answers.value_or(std::vector<bool>{});
  }

  FakeJudge judge_;
  HandClock clock_;
  Access access_{clock_, judge_, {.max_answers = 100}};
  const Asker jane_{.user = "jane", .groups = {"a", "b"}};
};

TEST_F(AccessTest, AnswersForEachNamespaceAndRemembers) {
  judge_.Allow("jane", "ml");
  EXPECT_TRUE(access_.MustAsk(jane_, {"ml", "ops"}));
  EXPECT_THAT(Ask(jane_, {"ml", "ops"}), ElementsAre(true, false));
  EXPECT_THAT(Ask(jane_, {"ml", "ops"}), ElementsAre(true, false));
  EXPECT_FALSE(access_.MustAsk(jane_, {"ml", "ops"}));
  EXPECT_EQ(judge_.asked(), 2);
}

TEST_F(AccessTest, AnAnswerLivesThirtySeconds) {
  judge_.Allow("jane", "ml");
  Ask(jane_, {"ml"});
  judge_.Withdraw("jane", "ml");
  clock_.Advance(29s);
  EXPECT_THAT(Ask(jane_, {"ml"}), ElementsAre(true));
  clock_.Advance(1s);
  EXPECT_TRUE(access_.MustAsk(jane_, {"ml"}));
  EXPECT_THAT(Ask(jane_, {"ml"}), ElementsAre(false));
}

TEST_F(AccessTest, AnAnswersLifeBeginsWithTheQuestion) {
  judge_.Allow("jane", "ml");
  judge_.while_asked = [this] { clock_.Advance(4s); };
  Ask(jane_, {"ml"});
  judge_.while_asked = nullptr;
  clock_.Advance(26s);
  EXPECT_TRUE(access_.MustAsk(jane_, {"ml"}));
}

TEST_F(AccessTest, OtherGroupsAreAnotherQuestion) {
  Ask(jane_, {"ml"});
  Ask({.user = "jane", .groups = {"a"}}, {"ml"});
  Ask({.user = "jane", .groups = {"ab"}}, {"ml"});
  Ask({.user = "janea", .groups = {"b"}}, {"ml"});
  Ask({.user = "jane", .groups = {"a,b"}}, {"ml"});
  EXPECT_EQ(judge_.asked(), 5);
}

TEST_F(AccessTest, NoAnswerIsNeverYesAndIsSoonAskedAgain) {
  judge_.Allow("jane", "ml");
  judge_.broken = true;
  for (int i = 0; i < 3; ++i) {
    const auto answers = access_.MaySee(jane_, {"ml", "ops"});
    EXPECT_EQ(answers.status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(judge_.asked(), 2) << "the API server is not asked by every request";
  judge_.broken = false;
  clock_.Advance(1s);
  EXPECT_THAT(Ask(jane_, {"ml", "ops"}), ElementsAre(true, false));
}

TEST_F(AccessTest, OneUnknownAnswerLeavesNothingOut) {
  judge_.Allow("jane", "ml");
  Ask(jane_, {"ml"});
  judge_.broken = true;
  EXPECT_FALSE(access_.MaySee(jane_, {"ml", "ops"}).ok());
  EXPECT_THAT(Ask(jane_, {"ml"}), ElementsAre(true)) << "known still";
}

TEST_F(AccessTest, AJudgeThatThrowsIsNoAnswer) {
  judge_.while_asked = [] { throw std::runtime_error("broken"); };
  EXPECT_FALSE(access_.MaySee(jane_, {"ml"}).ok());
  EXPECT_FALSE(access_.MaySee(jane_, {"ml"}).ok()) << "nobody waits for a question that has ended";
}

TEST_F(AccessTest, TheOldestAnswersGoFirst) {
  for (int i = 0; i < 150; ++i) Ask({.user = StrCat("u", i)}, {"ml"});
  EXPECT_EQ(access_.counts().forgotten, 50u);
  EXPECT_TRUE(access_.MustAsk({.user = "u49"}, {"ml"}));
  EXPECT_FALSE(access_.MustAsk({.user = "u50"}, {"ml"}));
}

TEST(Access, TheSameQuestionIsAskedOnce) {
  FakeJudge judge;
  const SystemClock clock;
  Access access(clock, judge, {});
  judge.Allow("jane", "ml");
  std::atomic<int> waiting{0};
  judge.while_asked = [&] {
    while (waiting < 8) std::this_thread::yield();
  };
  std::atomic<int> allowed{0};
  std::vector<std::thread> askers;
  for (int i = 0; i < 8; ++i) {
    askers.emplace_back([&] {
      ++waiting;
      const auto answers = access.MaySee({.user = "jane"}, {"ml"});
      if (answers.ok() && answers->front()) ++allowed;
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(allowed, 8);
  EXPECT_EQ(judge.asked(), 1);
}

TEST(Access, NobodyWaitsBeyondTheDeadline) {
  FakeJudge judge;
  const SystemClock clock;
  Access access(clock, judge, {.deadline = 50ms});
  Notification asked, end;
  judge.while_asked = [&] {
    asked.Notify();
    end.Wait();
  };
  std::thread first([&] { access.MaySee({.user = "jane"}, {"ml"}).status().IgnoreError(); });
  asked.Wait();
  EXPECT_FALSE(access.MaySee({.user = "jane"}, {"ml"}).ok());
  end.Notify();
  first.join();
}

}  // namespace
}  // namespace strobe::viewer
