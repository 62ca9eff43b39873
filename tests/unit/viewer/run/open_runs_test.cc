#include "viewer/run/open_runs.h"

#include <gmock/gmock.h>

#include <atomic>

#include "common/base/strings.h"
#include "tests/fakes/simulated_time.h"
#include "tests/unit/viewer/two_workers.h"

namespace strobe::viewer {
namespace {

using testing::HasSubstr;

// Has a run of every name, with as many workers as a test says.
class CountedRuns final : public Library {
 public:
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    return std::vector<std::string>{};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    ++opened;
    if (!problem.ok()) return problem;
    std::vector<convert::OpenTrace> traces;
    for (int worker = 0; worker < workers; ++worker)
      traces.push_back({StrCat("w", worker), "",
                        std::make_unique<const std::string>(StepsTrace(worker, 40, 8))});
    return traces;
  }
  absl::StatusOr<std::string> StampOf(const std::string&) override { return StrCat(workers); }
  std::string location() const override { return "s3://bucket/logs"; }

  absl::Status problem{};
  int workers = 1;
  std::atomic<int> opened{0};
};

class OpenRunsTest : public testing::Test {
 protected:
  static constexpr Nanos kLong = std::chrono::seconds(30);

  std::shared_ptr<const LoadedRun> Open(const std::string& name,
                                        const std::string& asker = "jane") {
    const absl::StatusOr<OpenRun> open = runs_.Open(name, kLong, asker);
    EXPECT_TRUE(open.ok()) << open.status();
    return open.ok() ? open->run : nullptr;
  }

  CountedRuns library_;
  const std::shared_ptr<SimulatedTime> clock_ = std::make_shared<SimulatedTime>();
  OpenRuns runs_{library_, {.max_open = 2, .clock = clock_}};
};

TEST_F(OpenRunsTest, ARunIsReadOnceForAllWhoAsk) {
  EXPECT_FALSE(runs_.Touch("a", "jane"));
  EXPECT_FALSE(runs_.IsServed("a"));
  const std::shared_ptr<const LoadedRun> run = Open("a");
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->workers.size(), 1u);
  EXPECT_TRUE(runs_.Touch("a", "bob"));
  EXPECT_TRUE(runs_.IsServed("a"));
  EXPECT_EQ(Open("a", "bob"), run);
  EXPECT_EQ(runs_.Find("a"), run);
  EXPECT_EQ(library_.opened, 1);
}

TEST_F(OpenRunsTest, TheOneThatWasAskedForLongestAgoGivesWay) {
  Open("a");
  Open("b");
  EXPECT_TRUE(runs_.Touch("a", "jane"));
  EXPECT_NE(runs_.Find("b"), nullptr) << "a look, which is no request";
  Open("c");
  EXPECT_EQ(runs_.Find("b"), nullptr);
  EXPECT_NE(runs_.Find("a"), nullptr);
  EXPECT_NE(runs_.Find("c"), nullptr);
}

TEST_F(OpenRunsTest, WhoOpensManyRunsEvictsTheirOwn) {
  Open("bobs", "bob");
  for (const char* run : {"a", "b", "c"}) Open(run, "mallory");
  EXPECT_NE(runs_.Find("bobs"), nullptr);
}

TEST_F(OpenRunsTest, ARunWithOtherTracesIsReadAnewForWhoOpensIt) {
  const std::shared_ptr<const LoadedRun> before = Open("a");
  library_.workers = 2;
  EXPECT_EQ(runs_.OpenFresh("a", kLong, "jane")->run, before) << "it was just read";
  clock_->Advance(std::chrono::seconds(3));
  EXPECT_EQ(Open("a"), before) << "for a page that shows it already";
  const absl::StatusOr<OpenRun> after = runs_.OpenFresh("a", kLong, "jane");
  ASSERT_TRUE(after.ok()) << after.status();
  ASSERT_NE(after->run, nullptr);
  EXPECT_EQ(after->run->workers.size(), 2u);
  EXPECT_TRUE(runs_.Check(*after).ok());
}

TEST_F(OpenRunsTest, AFailureIsForgottenSoThatTheNextRequestTriesAgain) {
  library_.problem = absl::PermissionDeniedError("the bucket says no");
  EXPECT_EQ(runs_.Open("a", kLong, "jane").status(), library_.problem);
  EXPECT_FALSE(runs_.Touch("a", "jane"));
  library_.problem = absl::OkStatus();
  EXPECT_NE(Open("a"), nullptr);
}

TEST_F(OpenRunsTest, WithoutRoomInTheProcessAllOthersAreEvictedBeforeItIsRefused) {
  Open("a");
  library_.problem = absl::ResourceExhaustedError("too many files are open");
  const absl::StatusOr<OpenRun> refused = runs_.Open("b", kLong, "jane");
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("too many files are open; try again when fewer runs are being read"));
  EXPECT_EQ(runs_.Find("a"), nullptr);
}

}  // namespace
}  // namespace strobe::viewer
