#include "collector/store/catalog/logdir_scan.h"

#include <gmock/gmock.h>

#include "tests/fakes/memory_store.h"

namespace strobe::catalog {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ScanTest : public testing::Test {
 protected:
  void Write(const std::string& run, const std::string& request) {
    ASSERT_TRUE(storage::PutText(store_, storage::TraceKey(run, "w0"), "trace").ok());
    ASSERT_TRUE(storage::PutText(store_, storage::ManifestKey(run),
                                 StrCat(R"({"result": "Succeeded", "request": "ml/)", request,
                                        R"(", "workers": [{"outcome": "Ok", "bytes": "5"}]})"))
                    .ok());
  }
  const LogdirRuns& Scan(const ScanLimits& limits = {}) {
    runs_ = ScanLogdir(store_, runs_, limits, nullptr, nullptr);
    return runs_;
  }
  // "run request", newest first.
  std::vector<std::string> Shown() {
    std::vector<std::string> shown;
    for (const EntryRef& entry : runs_.entries)
      shown.push_back(StrCat(entry->run, " ", entry->unread ? "unread" : entry->request));
    return shown;
  }
  std::size_t Reads() { return bucket_.Count("read"); }

  MemoryBucket bucket_;
  MemoryStore store_{bucket_};
  LogdirRuns runs_{.logdir = "gs://a"};
};

constexpr char kOld[] = "2026_11_20_10_00_00", kNew[] = "2026_11_21_10_00_00";

TEST_F(ScanTest, AReportsHeadlineIsReadWithItsManifest) {
  Write(kOld, "old");
  Write(kNew, "new");
  Scan();
  EXPECT_EQ(runs_.entries[0]->headline, "");
  const std::size_t reads = Reads();
  ASSERT_TRUE(
      storage::PutText(store_, storage::ReportKey(kNew), R"({"headline":"rank 5 is late", "steps)")
          .ok());
  ASSERT_TRUE(storage::PutText(store_, storage::ReportKey(kOld), "{").ok());
  Scan();
  EXPECT_EQ(runs_.entries[0]->headline, "rank 5 is late") << "the run has changed";
  EXPECT_EQ(runs_.entries[1]->headline, "") << "what cannot be read hides nothing else";
  EXPECT_THAT(Shown(), ElementsAre(StrCat(kNew, " new"), StrCat(kOld, " old")));
  EXPECT_EQ(Reads(), reads + 4);
  Scan();
  EXPECT_EQ(Reads(), reads + 4) << "nothing has changed";
}

TEST_F(ScanTest, ReadsOnlyManifestsThatAreNewOrHaveChanged) {
  Write(kOld, "old");
  Write(kNew, "new");
  ASSERT_TRUE(storage::PutText(store_, storage::TraceKey("others", "w0"), "four").ok());
  Scan();
  EXPECT_THAT(Shown(), ElementsAre(StrCat(kNew, " new"), StrCat(kOld, " old"), "others "));
  EXPECT_EQ(runs_.entries[2]->workers, 1u);
  EXPECT_EQ(runs_.entries[2]->bytes, 4u);
  EXPECT_TRUE(runs_.listed);
  const std::size_t reads = Reads();
  const EntryRef kept = runs_.entries[1];
  Scan();
  EXPECT_EQ(Reads(), reads) << "nothing has changed";
  Write(kNew, "changed");
  Scan();
  EXPECT_EQ(Reads(), reads + 1);
  EXPECT_THAT(Shown(), ElementsAre(StrCat(kNew, " changed"), StrCat(kOld, " old"), "others "));
  EXPECT_EQ(runs_.entries[1], kept);
  Write(kNew, "CHANGED");
  Scan();
  EXPECT_EQ(Reads(), reads + 2) << "its size is the same, its version is not";
  EXPECT_THAT(Shown(), ElementsAre(StrCat(kNew, " CHANGED"), StrCat(kOld, " old"), "others "));
  ASSERT_TRUE(storage::DeleteBelow(store_, storage::RunPrefix(kOld)).ok());
  Scan();
  EXPECT_THAT(Shown(), ElementsAre(StrCat(kNew, " CHANGED"), "others "));
}

TEST_F(ScanTest, AListingThatIsDeniedInItsMidstKeepsWhatIsKnown) {
  Write(kOld, "old");
  Write(kNew, "new");
  Scan();
  Write("2026_11_22_10_00_00", "newest");
  ASSERT_TRUE(storage::DeleteBelow(store_, storage::RunPrefix(kOld)).ok());
  // It has listed a part by then.
  bucket_.after = [](const std::string& call) {
    return call == "list" ? absl::PermissionDeniedError("the bucket says no") : absl::OkStatus();
  };
  Scan();
  EXPECT_THAT(Shown(), ElementsAre("2026_11_22_10_00_00 newest", StrCat(kNew, " new"),
                                   StrCat(kOld, " old")));
  EXPECT_THAT(runs_.problem, HasSubstr("the bucket says no"));
  EXPECT_TRUE(runs_.listed);
  bucket_.after = nullptr;
  Scan();
  EXPECT_EQ(runs_.problem, "") << "and it recovers";
  EXPECT_EQ(runs_.entries.size(), 2u);
}

TEST_F(ScanTest, ManifestsThatAreDeniedAreReadLater) {
  Write(kOld, "old");
  bucket_.before = [](const std::string& call) {
    return call == "read" ? absl::PermissionDeniedError("not you") : absl::OkStatus();
  };
  Scan();
  EXPECT_THAT(Shown(), ElementsAre(StrCat(kOld, " unread")));
  EXPECT_THAT(runs_.problem, HasSubstr("not you"));
  bucket_.before = nullptr;
  Scan();
  EXPECT_THAT(Shown(), ElementsAre(StrCat(kOld, " old")));
}

TEST_F(ScanTest, FindsNewRunsWithoutListingAllObjects) {
  Write(kOld, "old");
  ASSERT_TRUE(storage::PutText(store_, storage::TraceKey(kNew, "w0"), "trace").ok());
  Scan();
  EXPECT_THAT(Shown(), ElementsAre(StrCat(kNew, " "), StrCat(kOld, " old")));
  Write(kNew, "ended meanwhile");
  Write("2026_11_22_10_00_00", "newest");
  const std::size_t reads = Reads();
  runs_ = ScanNewRuns(store_, runs_, {}, nullptr);
  EXPECT_THAT(Shown(), ElementsAre("2026_11_22_10_00_00 newest", StrCat(kNew, " ended meanwhile"),
                                   StrCat(kOld, " old")));
  EXPECT_EQ(Reads(), reads + 2);
  runs_ = ScanNewRuns(store_, runs_, {}, nullptr);
  EXPECT_EQ(Reads(), reads + 2);
  bucket_.before = [](const std::string&) { return absl::PermissionDeniedError("not you"); };
  runs_ = ScanNewRuns(store_, runs_, {}, nullptr);
  EXPECT_EQ(runs_.entries.size(), 3u);
}

TEST_F(ScanTest, KeysThatAreNoFilesChangeNothing) {
  Write(kOld, "old");
  Write(kNew, "new");
  Scan();
  const std::vector<std::string> shown = Shown();
  const RunObjects objects = runs_.entries[0]->objects;
  for (const std::string& key : OddKeys(kNew))
    ASSERT_TRUE(storage::PutText(store_, key, "odd").ok());
  ASSERT_TRUE(storage::PutText(store_, storage::RunPrefix("2027_console"), "").ok());
  bucket_.strays = OddKeys(kNew);
  runs_ = ScanNewRuns(store_, runs_, {}, nullptr);
  EXPECT_EQ(Shown(), shown);
  Scan();
  EXPECT_EQ(Shown(), shown);
  EXPECT_EQ(runs_.entries[0]->objects, objects);
  EXPECT_EQ(runs_.problem, "");
}

TEST_F(ScanTest, GivesUpOnALogdirThatDeniesEveryManifest) {
  for (int i = 0; i < 300; ++i) Write(StrCat("run-", i), "x");
  bucket_.before = [](const std::string& call) {
    return call == "read" ? absl::PermissionDeniedError("not you") : absl::OkStatus();
  };
  Scan();
  EXPECT_EQ(runs_.entries.size(), 300u);
  EXPECT_LT(Reads(), 100u);
}

TEST_F(ScanTest, BoundsRunsAndMemory) {
  for (int i = 10; i < 30; ++i) Write(StrCat("2026_11_21_10_00_", i), "x");
  Scan({.max_runs = 5});
  ASSERT_EQ(runs_.entries.size(), 5u);
  EXPECT_EQ(runs_.entries[0]->run, "2026_11_21_10_00_29") << "the newest are kept";
  EXPECT_GT(runs_.left_out, 0u);
  Scan({.max_bytes = 3000});
  EXPECT_LT(runs_.entries.size(), 10u);
  EXPECT_GT(runs_.left_out, 10u);
  Scan();
  EXPECT_EQ(runs_.entries.size(), 20u);
  EXPECT_EQ(runs_.left_out, 0u);
}

TEST_F(ScanTest, AManifestThatIsNoneOrTooLargeIsToldWithItsRun) {
  ASSERT_TRUE(storage::PutText(store_, storage::ManifestKey(kOld), "no manifest").ok());
  ASSERT_TRUE(storage::PutText(store_, storage::ManifestKey(kNew), std::string(2000, ' ')).ok());
  Scan({.max_manifest_bytes = 1000});
  EXPECT_THAT(runs_.entries[0]->problem, HasSubstr("too much"));
  EXPECT_THAT(runs_.entries[1]->problem, HasSubstr("cannot be read"));
  const std::size_t reads = Reads();
  Scan({.max_manifest_bytes = 1000});
  EXPECT_EQ(Reads(), reads) << "and not read again";
}

}  // namespace
}  // namespace strobe::catalog
