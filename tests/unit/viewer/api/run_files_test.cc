#include "viewer/api/run_files.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/fakes/memory_store.h"
#include "viewer/router.h"

namespace strobe::viewer {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr char kRun[] = "2026_11_21_10_00_00";
// Another logdir's run says that it is of the same namespace: it decides nothing.
constexpr char kManifest[] = R"({"request": "ml/look", "requester": "<b>jane</b>",
  "result": "Failed", "workers": [{"name": "w0", "outcome": "Ok", "bytes": "5"},
    {"name": "w1", "outcome": "LateStart", "message": "late"},
    {"name": "w2", "outcome": "WorkerLost"}]})";

// One run in two logdirs.
class TwoLogdirs final : public Library {
 public:
  TwoLogdirs() {
    for (MemoryBucket& bucket : buckets_) {
      MemoryStore store(bucket);
      EXPECT_TRUE(storage::PutText(store, storage::ManifestKey(kRun), kManifest).ok());
      EXPECT_TRUE(storage::PutText(store, storage::TraceKey(kRun, "w0"), "0123456789").ok());
    }
    std::vector<catalog::CatalogedLogdir> logdirs;
    for (std::size_t i = 0; i < 2; ++i)
      logdirs.push_back(
          {kLogdirs[i], [this, i](const storage::StoreLimits&) { return StoreOf(i); }});
    catalog_ = std::make_unique<catalog::Catalog>(std::move(logdirs), catalog::Options{});
    EXPECT_TRUE(catalog_->AwaitListed(std::chrono::seconds(30)));
  }
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible& visible,
                                                std::size_t) override {
    std::vector<std::string> runs;
    for (const char* logdir : kLogdirs)
      if (visible.Has(logdir)) runs.push_back(NameOf(logdir, kRun));
    return runs;
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    return absl::UnimplementedError("not here");
  }
  std::string location() const override { return "gs://a, gs://b"; }
  std::string LogdirOf(const std::string& run) const override { return run.substr(0, 6); }
  std::string NameOf(std::string_view logdir, std::string_view run) const override {
    return StrCat(logdir, "/", run);
  }
  absl::StatusOr<StoredRun> Store(const std::string& run) override {
    absl::StatusOr<std::unique_ptr<storage::ObjectStore>> store = StoreOf(run[5] == 'a' ? 0 : 1);
    return StoredRun{*std::move(store), run.substr(7)};
  }
  bool has_catalog() const override { return true; }
  const catalog::Catalog* catalog() override { return catalog_.get(); }
  bool names_a_run() const override { return false; }

  // Listings tell these keys too.
  void Tell(const std::vector<std::string>& keys) {
    for (MemoryBucket& bucket : buckets_) bucket.strays = keys;
  }

  static constexpr const char* kLogdirs[2] = {"gs://a", "gs://b"};

 private:
  absl::StatusOr<std::unique_ptr<storage::ObjectStore>> StoreOf(std::size_t i) {
    return std::make_unique<MemoryStore>(buckets_[i]);
  }

  MemoryBucket buckets_[2];
  std::unique_ptr<catalog::Catalog> catalog_;
};

class RunFilesTest : public testing::Test {
 protected:
  http::Page Get(const std::string& path, const std::string& query, const std::string& range = "") {
    return viewer_.Answer({.path = path, .query = query, .host = "localhost", .range = range},
                          visible_);
  }
  static std::string BodyOf(http::Page& page) {
    std::string body(page.source->size(), '\0');
    EXPECT_EQ(*page.source->Read(0, body), body.size());
    return body;
  }

  TwoLogdirs library_;
  Router viewer_{library_, {}};
  catalog::Visible visible_ = catalog::kAllVisible;
};

TEST(ParseRange, TakesWhatClientsSend) {
  const auto range = [](const char* header) {
    const auto parsed = ParseRange(header, 10);
    if (!parsed.ok()) return std::string("none");
    if (!*parsed) return std::string("whole");
    return StrCat((*parsed)->begin, " ", (*parsed)->end);
  };
  EXPECT_EQ(range("bytes=0-3"), "0 4");
  EXPECT_EQ(range("bytes=4-"), "4 10");
  EXPECT_EQ(range("bytes=4-99999999999999999999"), "whole") << "that is no number";
  EXPECT_EQ(range("bytes=4-18446744073709551615"), "4 10");
  EXPECT_EQ(range("bytes=-3"), "7 10");
  EXPECT_EQ(range("bytes=-30"), "0 10");
  for (const char* none : {"bytes=10-", "bytes=10-12", "bytes=-0"}) EXPECT_EQ(range(none), "none");
  for (const char* whole : {"", "bytes=-", "bytes=1-2,4-5", "lines=1-2", "bytes=3-1", "bytes=a-b"})
    EXPECT_EQ(range(whole), "whole") << whole;
}

TEST_F(RunFilesTest, TellsVerdictWorkersAndFiles) {
  const json about = json::parse(Get("/api/manifest", StrCat("run=gs://a/", kRun)).body);
  EXPECT_EQ(about["logdir"], "gs://a");
  EXPECT_EQ(about["manifest"]["requester"], "<b>jane</b>") << "text; the page sets it as such";
  EXPECT_EQ(about["manifest"]["workers"][0]["remedy"], "");
  EXPECT_NE(about["manifest"]["workers"][1]["remedy"], "");
  EXPECT_EQ(about["manifest"]["workers"][0]["hasTrace"], true);
  EXPECT_EQ(about["manifest"]["workers"][1]["hasTrace"], true);
  EXPECT_EQ(about["manifest"]["workers"][2]["hasTrace"], false);
  EXPECT_EQ(about["files"][1], json({{"name", "w0.xplane.pb"}, {"bytes", 10}}));
}

// Regression: an empty object "RUN/" ended the viewer for all its users.
TEST_F(RunFilesTest, KeysThatAreNoFilesAreNotShown) {
  const std::string before = Get("/api/manifest", StrCat("run=gs://a/", kRun)).body;
  library_.Tell(OddKeys(kRun));
  EXPECT_EQ(Get("/api/manifest", StrCat("run=gs://a/", kRun)).body, before);
  EXPECT_EQ(Get("/api/manifest", "run=gs://a/2027_console").status, 404);
}

TEST_F(RunFilesTest, FilesAreReadByRanges) {
  const std::string query = StrCat("run=gs://a/", kRun, "&file=w0.xplane.pb");
  http::Page page = Get("/api/file", query);
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(BodyOf(page), "0123456789");
  page = Get("/api/file", query, "bytes=3-5");
  EXPECT_EQ(page.status, 206);
  EXPECT_EQ(BodyOf(page), "345");
  EXPECT_THAT(page.headers, testing::Contains(testing::Pair("Content-Range", "bytes 3-5/10")));
  EXPECT_EQ(Get("/api/file", query, "bytes=10-").status, 416);
  for (const char* wrong :
       {"", "../other/strobe.json", "/etc/passwd", "a//b", ".", "%00", "%ff", "a/b/c/d/e/f/g/h/i"})
    EXPECT_EQ(Get("/api/file", StrCat("run=gs://a/", kRun, "&file=", wrong)).status, 400) << wrong;
  // Regression: a file system's answer to such a name counted as one that may be cured.
  EXPECT_EQ(Get("/api/file", StrCat("run=gs://a/", kRun, "&file=", std::string(256, 'a'))).status,
            400);
  EXPECT_EQ(Get("/api/file", StrCat("run=gs://a/", kRun, "&file=none")).status, 404);
}

TEST_F(RunFilesTest, RunsOfLogdirsThatAreNotVisibleDoNotExist) {
  visible_ = {.logdirs = {"gs://b"}};
  const json list = json::parse(Get("/api/catalog", "q=jane").body);
  ASSERT_EQ(list["runs"].size(), 1u);
  EXPECT_EQ(list["runs"][0]["name"], StrCat("gs://b/", kRun));
  EXPECT_EQ(list["logdirs"].size(), 1u);
  EXPECT_THAT(list.dump(), Not(HasSubstr("gs://a")));
  EXPECT_THAT(Get("/api/runs", "").body, Not(HasSubstr("gs://a")));
  EXPECT_THAT(Get("/data/plugin/profile/runs", "").body, Not(HasSubstr("gs://a")));
  for (const char* path : {"/api/run", "/api/report", "/api/manifest", "/api/perfetto",
                           "/api/tiles", "/api/file", "/data/plugin/profile/hosts"}) {
    const http::Page hidden = Get(path, StrCat("file=strobe.json&run=gs://a/", kRun));
    const http::Page none = Get(path, StrCat("file=strobe.json&run=gs://c/", kRun));
    EXPECT_EQ(hidden.status, 404) << path;
    EXPECT_EQ(hidden.body, StrCat("there is no run gs://a/", kRun, "\n")) << path;
    EXPECT_EQ(none.body, StrCat("there is no run gs://c/", kRun, "\n")) << "the same answer";
  }
  visible_ = {};
  EXPECT_EQ(Get("/api/run", "").status, 404);
  EXPECT_EQ(json::parse(Get("/api/catalog", "").body)["runs"].size(), 0u);
}

TEST_F(RunFilesTest, TheListIsPagedAndSaysWhatItCannotTake) {
  const json first = json::parse(Get("/api/catalog", "limit=1").body);
  ASSERT_EQ(first["runs"].size(), 1u);
  const std::string after = first["next"];
  const json second = json::parse(Get("/api/catalog", StrCat("limit=1&after=", after)).body);
  EXPECT_NE(second["runs"][0]["name"], first["runs"][0]["name"]);
  EXPECT_EQ(second["next"], "");
  for (const char* wrong : {"limit=0", "limit=1001", "after=x"})
    EXPECT_EQ(Get("/api/catalog", wrong).status, 400) << wrong;
}

}  // namespace
}  // namespace strobe::viewer
