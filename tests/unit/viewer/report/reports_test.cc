#include "viewer/report/reports.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/mutex.h"
#include "tests/fakes/memory_store.h"
#include "tests/fakes/simulated_time.h"
#include "tests/unit/viewer/made_run.h"
#include "tests/unit/viewer/two_workers.h"
#include "viewer/router.h"

namespace strobe::viewer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kStoredText[] =
    R"({"format": 1, "headline": "rank 5 holds up 7 others", "stragglers": {"workers": 8, "steps": 20}})";

// One run of two workers, in a logdir.
class OneLogdir final : public Library {
 public:
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    return std::vector<std::string>{"look"};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    // The bound lets a test that fails come to its end.
    if (is_held) let.WaitFor(std::chrono::minutes(1));
    std::vector<convert::OpenTrace> traces;
    for (const std::string& trace : TwoWorkers())
      traces.push_back(
          {StrCat("w", traces.size()), "", std::make_unique<const std::string>(trace)});
    return traces;
  }
  std::string location() const override { return "gs://a"; }
  absl::StatusOr<StoredRun> Store(const std::string& run) override {
    ++stores;
    if (!has_store) return absl::NotFoundError("it is no logdir's");
    return StoredRun{std::make_unique<MemoryStore>(bucket), run};
  }

  MemoryBucket bucket;
  bool has_store = true;
  std::atomic<int> stores{0};  // How often the logdir was asked for.
  bool is_held = false;        // The traces can be opened once the test has notified `let`.
  Notification let;
};

class ReportsTest : public testing::Test {
 protected:
  void Put(const std::string& text) {
    MemoryStore store(library_.bucket);
    ASSERT_TRUE(storage::PutText(store, storage::ReportKey("look"), text).ok());
  }
  json Ask(const std::string& make) {
    const http::Request request{
        .path = "/api/report", .query = StrCat("run=&make=", make), .host = "localhost"};
    EXPECT_EQ(viewer_.LoadOf(request, &catalog::kAllVisible), http::Load::kHeavy);
    const http::Page page = viewer_.Answer(request);
    EXPECT_EQ(page.status, 200) << page.body;
    return json::parse(page.body);
  }
  // Asks until it is neither loading nor computing.
  json Made(const std::string& make) {
    for (int i = 0; i < 600; ++i) {
      json answer = Ask(make);
      if (answer["state"] != "loading" && answer["state"] != "computing") return answer;
    }
    ADD_FAILURE() << "the report is not made";
    return {};
  }

  OneLogdir library_;
  Router viewer_{library_, {}};
};

TEST_F(ReportsTest, WhatTheCaptureStoredIsShown) {
  Put(kStoredText);
  for (const char* make : {"", "cheap", "always"}) {
    const json answer = Ask(make);
    EXPECT_EQ(answer["state"], "stored") << make;
    EXPECT_EQ(answer["report"]["headline"], "rank 5 holds up 7 others");
    EXPECT_EQ(answer["compares"], true);
    EXPECT_EQ(answer["problem"], "");
  }
}

TEST_F(ReportsTest, WithoutAStoredOneItIsComputedOnlyWhenAsked) {
  EXPECT_EQ(Ask("")["state"], "none");
  const json answer = Made("cheap");
  EXPECT_EQ(answer["state"], "computed");
  EXPECT_EQ(answer["compares"], true);
  EXPECT_EQ(answer["report"]["workers"].size(), 2u);
  EXPECT_EQ(Made("always"), answer) << "it is kept";
}

TEST_F(ReportsTest, RunsThatAreInNoLogdirHaveOneToo) {
  library_.has_store = false;
  EXPECT_EQ(Ask("")["state"], "none");
  EXPECT_EQ(Made("always")["state"], "computed");
}

TEST_F(ReportsTest, ADamagedOneIsToldAndReplaced) {
  Put(R"({"format": 1, "headline": ["<script>"]})");
  const std::string problem = "report.json cannot be shown: report.headline is not a text";
  const json stored = Ask("");
  EXPECT_EQ(stored["state"], "none");
  EXPECT_EQ(stored["problem"], problem);
  const json made = Made("always");
  EXPECT_EQ(made["state"], "computed");
  EXPECT_EQ(made["problem"], problem);
}

TEST_F(ReportsTest, OfAJobThatStoodStillTheVerdictIsShown) {
  MemoryStore store(library_.bucket);
  ASSERT_TRUE(
      storage::PutText(store, storage::EvidenceKey("look"),
                       R"({"format": 1, "verdict": {"text": "rank 2 holds up 3 others\n"}})")
          .ok());
  for (const char* make : {"", "cheap", "always"}) {
    const json answer = Ask(make);
    EXPECT_EQ(answer["state"], "stored") << make;
    EXPECT_EQ(answer["report"], nullptr);
    EXPECT_EQ(answer["evidence"]["lines"], json::array({"rank 2 holds up 3 others"}));
  }
  ASSERT_TRUE(storage::PutText(store, storage::EvidenceKey("look"), "damaged").ok());
  EXPECT_EQ(Ask("always")["evidence"]["lines"],
            json::array({"evidence.json cannot be shown: evidence is not an object"}));
}

TEST_F(ReportsTest, APageThatWaitsDoesNotHaveTheStoreAskedAgain) {
  Put("damaged");
  library_.is_held = true;
  const auto clock = std::make_shared<SimulatedTime>();
  Router viewer(library_, {.clock = clock});
  const auto ask = [&] {
    return json::parse(viewer.Answer({"/api/report", "run=look&make=always", "localhost"}).body);
  };
  const json first = ask();
  EXPECT_EQ(first["state"], "loading");
  EXPECT_THAT(first["problem"].get<std::string>(), HasSubstr("cannot be shown"));
  EXPECT_EQ(ask(), first);
  EXPECT_EQ(library_.stores, 1);
  clock->Advance(std::chrono::seconds(6));  // The page is gone; it may have been stored meanwhile.
  EXPECT_EQ(ask(), first);
  EXPECT_EQ(library_.stores, 2);
  library_.let.Notify();
  json made = ask();
  while (made["state"] == "loading" || made["state"] == "computing") made = ask();
  EXPECT_EQ(made["state"], "computed");
  EXPECT_EQ(made["problem"], first["problem"]);
  EXPECT_EQ(library_.stores, 2);
}

// Regression: one that was computed before the capture stored its report hid it for ever.
TEST_F(ReportsTest, AReportThatIsStoredLaterIsShownInsteadOfTheComputedOne) {
  EXPECT_EQ(Made("always")["state"], "computed");
  EXPECT_EQ(Made("always")["state"], "computed") << "somebody else has come to get it";
  Put(kStoredText);
  const json answer = Ask("always");
  EXPECT_EQ(answer["state"], "stored");
  EXPECT_EQ(answer["report"]["headline"], "rank 5 holds up 7 others");
}

TEST_F(ReportsTest, AnErrorOfTheStoreIsToldOnlyWhileItLasts) {
  library_.bucket.before = [](const std::string&) {
    return absl::UnavailableError("connection refused");
  };
  EXPECT_THAT(Made("always")["problem"].get<std::string>(), HasSubstr("connection refused"));
  library_.bucket.before = nullptr;
  const json answer = Ask("always");
  EXPECT_EQ(answer["state"], "computed");
  EXPECT_EQ(answer["problem"], "");
}

TEST_F(ReportsTest, AStoreThatRefusesIsTold) {
  library_.bucket.before = [](const std::string&) {
    return absl::PermissionDeniedError("the bucket says no");
  };
  EXPECT_THAT(Ask("")["problem"].get<std::string>(), HasSubstr("the bucket says no"));
  EXPECT_EQ(Made("always")["state"], "computed");
}

TEST_F(ReportsTest, OtherQueriesAreRefused) {
  EXPECT_EQ(
      viewer_.Answer({.path = "/api/report", .query = "make=now", .host = "localhost"}).status,
      400);
}

// Makes a run's report once the test lets it.
class HeldReports {
 public:
  MakeFunction Make() {
    return [this](const LoadedRun& run, const Cancellation& stop, std::atomic<std::size_t>& done) {
      {
        MutexLock lock(&mutex_);
        ++begun_[run.name];
      }
      while (!IsLet(run.name) && !stop.WaitFor(std::chrono::milliseconds(1))) {
      }
      return MakeReportInTime(run, stop, done);
    };
  }
  void Let(const std::string& run) {
    MutexLock lock(&mutex_);
    let_.insert(run);
  }
  int begun(const std::string& run) {
    MutexLock lock(&mutex_);
    return begun_[run];
  }

 private:
  bool IsLet(const std::string& run) {
    MutexLock lock(&mutex_);
    return let_.contains(run);
  }

  Mutex mutex_;
  std::set<std::string> let_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> begun_ ABSL_GUARDED_BY(mutex_);
};

class ManyReportsTest : public testing::Test {
 protected:
  ManyReportsTest() {
    for (const char* run : {"a", "b", "c"}) SetRun(run, 8);
  }
  void SetRun(const std::string& name, int steps) {
    LoadedRun run = MadeRun(TwoWorkers(steps));
    run.name = name;
    runs_[name] = std::make_shared<const LoadedRun>(std::move(run));
  }
  json AskFor(const std::string& run) {
    return json::parse(reports_.Answer(run, runs_.at(run), Making::kAlways, {}, "bob").body);
  }
  bool IsComputing(const std::string& run) { return AskFor(run)["state"] == "computing"; }
  json Finish(const std::string& run) {
    held_.Let(run);
    for (;;) {
      json answer = AskFor(run);
      if (answer["state"] != "computing") return answer;
    }
  }

  HeldReports held_;
  std::map<std::string, std::shared_ptr<const LoadedRun>> runs_;
  const std::shared_ptr<SimulatedTime> clock_ = std::make_shared<SimulatedTime>();
  Reports reports_{2, clock_, held_.Make()};
};

TEST_F(ManyReportsTest, ReportsThatAreBeingComputedDoNotEvictOneAnother) {
  for (int round = 0; round < 2; ++round) {
    for (const char* run : {"a", "b", "c"}) EXPECT_TRUE(IsComputing(run)) << run;
  }
  EXPECT_EQ(held_.begun("c"), 0) << "two are being computed";
  EXPECT_EQ(reports_.ProblemOf("c"), "") << "it waits, so the store is not asked for it again";
  EXPECT_EQ(reports_.ProblemOf("d"), std::nullopt);
  for (const char* run : {"a", "c", "b"}) EXPECT_EQ(Finish(run)["state"], "computed") << run;
  for (const char* run : {"a", "b", "c"}) EXPECT_EQ(held_.begun(run), 1) << run;
}

TEST_F(ManyReportsTest, AReportForWhichNobodyWaitsGivesWay) {
  EXPECT_TRUE(IsComputing("a"));
  EXPECT_TRUE(IsComputing("b"));
  clock_->Advance(std::chrono::seconds(4));  // Nobody comes to get a's.
  EXPECT_TRUE(IsComputing("b"));
  EXPECT_TRUE(IsComputing("c"));
  EXPECT_EQ(held_.begun("c"), 0) << "a's may still be asked for";
  clock_->Advance(std::chrono::seconds(2));
  EXPECT_EQ(Finish("c")["state"], "computed");
  EXPECT_EQ(Finish("b")["state"], "computed");
  for (const char* run : {"a", "b", "c"}) EXPECT_EQ(held_.begun(run), 1) << run;
}

TEST_F(ManyReportsTest, AReportIsKeptUntilTheTracesAreOthers) {
  const json first = Finish("a");
  SetRun("a", 8);  // Read anew, as after it was closed.
  EXPECT_EQ(Finish("a"), first);
  EXPECT_EQ(held_.begun("a"), 1);
  SetRun("a", 10);
  EXPECT_EQ(Finish("a")["report"]["stragglers"]["steps"], 10);
  EXPECT_EQ(held_.begun("a"), 2);
}

}  // namespace
}  // namespace strobe::viewer
