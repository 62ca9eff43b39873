#include "cli/base/run_choice.h"

#include <gmock/gmock.h>

#include "tests/fakes/memory_store.h"

namespace strobe::cli {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// 2026-11-21 08:30:00 UTC.
constexpr WallTime kChosenAt{1'795'249'800s};

class ChooseRunsTest : public testing::Test {
 protected:
  ChooseRunsTest() {
    for (const char* run :
         {"2026_11_21_08_00_00_new", "2026_11_20_08_00_00_old", "bench", "~odd", "zeta"}) {
      EXPECT_TRUE(storage::PutText(store_, storage::TraceKey(run, "w0"), "x").ok());
    }
  }
  absl::StatusOr<std::vector<std::string>> Choose(const std::string& named,
                                                  const RunChoice& choice) {
    return ChooseRuns(store_, named, choice, kChosenAt);
  }

  MemoryBucket bucket_;
  MemoryStore store_{bucket_};
};

TEST_F(ChooseRunsTest, ARunIsNamedByThePlaceOrByAFlag) {
  EXPECT_THAT(*Choose("bench", {}), ElementsAre("bench"));
  EXPECT_THAT(*Choose("", {.runs = {"zeta", "not_there"}}), ElementsAre("zeta", "not_there"));
  EXPECT_EQ(bucket_.Count("list"), 0u) << "nothing needs to be listed";
}

TEST_F(ChooseRunsTest, AllMeansEveryRunNewestFirst) {
  EXPECT_THAT(
      *Choose("", {.all = true}),
      ElementsAre("~odd", "zeta", "bench", "2026_11_21_08_00_00_new", "2026_11_20_08_00_00_old"));
}

// Regression: `strobe rm LOGDIR --run zeta --all` deleted zeta twice and failed the second time.
TEST_F(ChooseRunsTest, ARunThatIsChosenTwiceIsChosenOnce) {
  EXPECT_THAT(
      *Choose("bench", {.runs = {"zeta", "zeta", "bench"}, .all = true}),
      ElementsAre("zeta", "bench", "~odd", "2026_11_21_08_00_00_new", "2026_11_20_08_00_00_old"));
}

TEST_F(ChooseRunsTest, OnlyARunWithATimeInItsNameHasAnAge) {
  EXPECT_THAT(*Choose("", {.older_than = "1h"}), ElementsAre("2026_11_20_08_00_00_old"));
  EXPECT_THAT(*Choose("", {.all = true, .older_than = "1h"}),
              ElementsAre("2026_11_20_08_00_00_old"))
      << "--older-than limits --all";
  EXPECT_THAT(*Choose("", {.older_than = "10m"}),
              ElementsAre("2026_11_21_08_00_00_new", "2026_11_20_08_00_00_old"));
  EXPECT_THAT(*Choose("", {.older_than = "720h"}), IsEmpty());
}

// Regression: a run named "175b" was taken for older than any time, because "1" is before "2026".
TEST_F(ChooseRunsTest, ANameThatOnlyBeginsWithADigitHasNoAge) {
  for (const char* run : {"13b_final", "175b", "100_steps", "1e-4_lr", "0_baseline", "2025",
                          "2025_13_01_00_00_00_x", "2025_01_01_00_00_00x", "2025_01_01_00_00"})
    EXPECT_TRUE(storage::PutText(store_, storage::TraceKey(run, "w0"), "x").ok());
  EXPECT_THAT(*Choose("", {.older_than = "1h"}), ElementsAre("2026_11_20_08_00_00_old"));
}

// JAX and TensorBoard name runs with their local time.
TEST_F(ChooseRunsTest, ATimeAloneMayBeLocal) {
  for (const char* run : {"2026_11_20_22_30_00", "2026_11_20_16_31_00", "2026_11_20_16_29_00"})
    EXPECT_TRUE(storage::PutText(store_, storage::TraceKey(run, "w0"), "x").ok());
  EXPECT_THAT(*Choose("", {.older_than = "2h"}),
              ElementsAre("2026_11_20_16_29_00", "2026_11_20_08_00_00_old"));
}

// Regression: `strobe rm LOGDIR --all --older-than "$AGE" --yes` deleted everything without AGE.
TEST_F(ChooseRunsTest, AnEmptyAgeIsRefused) {
  CLI::App command;
  RunChoice choice;
  AddRunChoiceFlags(command, choice);
  AddOlderThanFlag(command, choice);
  command.parse(std::vector<std::string>{"", "--older-than", "--all"});  // Parsed from the end.
  const auto runs = Choose("", choice);
  EXPECT_EQ(runs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(runs.status().message()), HasSubstr("--older-than: "));
}

TEST(DeletionQuestion, NamesTheRunsAndCountsManyMore) {
  EXPECT_EQ(DeletionQuestion({"2026_11_20_08_00_00_old"}, "s3://b/logs"),
            "Delete 1 run from s3://b/logs?\n  2026_11_20_08_00_00_old\n[y/N] ");
  EXPECT_THAT(DeletionQuestion({"a", "b\x1b[2J"}, "s3://b/logs"),
              HasSubstr("  a\n  b [2J\n[y/N] "));
  const std::vector<std::string> many(22, "run");
  const std::string text = DeletionQuestion(many, "s3://b/logs");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 22);
  EXPECT_THAT(text, HasSubstr("Delete 22 runs from"));
  EXPECT_THAT(text, HasSubstr("\n  and 2 more; --dry-run lists all of them\n"));
}

TEST_F(ChooseRunsTest, SomethingMustBeChosen) {
  const auto runs = Choose("", {});
  EXPECT_EQ(runs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(runs.status().message()), HasSubstr("no run is named"));
}

TEST_F(ChooseRunsTest, RefusesNamesThatLeadOutOfTheLogdir) {
  for (const char* wrong : {"..", "a/b", "", ".hidden"})
    EXPECT_EQ(Choose("", {.runs = {wrong}}).status().code(), absl::StatusCode::kInvalidArgument)
        << wrong;
}

TEST_F(ChooseRunsTest, RefusesAnAgeThatIsNoDuration) {
  const auto runs = Choose("", {.older_than = "30d"});
  EXPECT_EQ(runs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(runs.status().message()), HasSubstr("--older-than: "));
}

TEST_F(ChooseRunsTest, PassesTheStoresErrorOn) {
  bucket_.before = [](const std::string&) { return absl::PermissionDeniedError("not you"); };
  EXPECT_EQ(Choose("", {.all = true}).status().code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace strobe::cli
