#include "viewer/reports.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/fakes/memory_store.h"
#include "tests/unit/viewer/two_workers.h"
#include "viewer/viewer.h"

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
    std::vector<convert::OpenTrace> traces;
    for (const std::string& trace : TwoWorkers())
      traces.push_back(
          {StrCat("w", traces.size()), "", std::make_unique<const std::string>(trace)});
    return traces;
  }
  std::string place() const override { return "gs://a"; }
  absl::StatusOr<StoredRun> Store(const std::string& run) override {
    if (!has_store) return absl::NotFoundError("it is no logdir's");
    return StoredRun{std::make_unique<MemoryStore>(bucket), run};
  }

  MemoryBucket bucket;
  bool has_store = true;
};

class ReportsTest : public testing::Test {
 protected:
  void Put(const std::string& text) {
    MemoryStore store(library_.bucket);
    ASSERT_TRUE(PutText(store, ReportKey("look"), text).ok());
  }
  json Ask(const std::string& make) {
    const Request request{
        .path = "/api/report", .query = StrCat("run=&make=", make), .host = "localhost"};
    EXPECT_TRUE(Viewer::IsSlow(request));
    const Page page = viewer_.Answer(request);
    EXPECT_EQ(page.status, 200) << page.body;
    return json::parse(page.body);
  }
  // Until it is neither loading nor computing.
  json Made(const std::string& make) {
    for (int i = 0; i < 600; ++i) {
      json answer = Ask(make);
      if (answer["state"] != "loading" && answer["state"] != "computing") return answer;
    }
    ADD_FAILURE() << "the report is not made";
    return {};
  }

  OneLogdir library_;
  Viewer viewer_{library_, {}};
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

}  // namespace
}  // namespace strobe::viewer
