#include "collector/store/catalog/entries_file.h"

#include <gmock/gmock.h>

namespace strobe::catalog {
namespace {

std::string Written(const LogdirRuns& runs) {
  std::string text;
  EXPECT_TRUE(WriteEntries(runs, [&](std::string_view piece) {
                text += piece;
                return absl::OkStatus();
              }).ok());
  return text;
}

LogdirRuns Some() {
  LogdirRuns runs{.logdir = "gs://a"};
  const ManifestFacts facts{.request = "ml/<b>\n\"x\"",
                            .job = "Job/llm",
                            .requester = "jane",
                            .result = "Failed",
                            .synchronized = true,
                            .skew_known = true,
                            .skew_ns = -5,
                            .skew_error_ns = 7,
                            .workers = 9,
                            .ok = 3,
                            .bytes = 1ull << 60,
                            .causes = {{"WorkerLost", 6}}};
  RunEntry read = EntryOf("2026_11_21_08_30_00", {12, 0xf00df00df00df00d, 34, 5, 6}, facts);
  read.headline = "rank 5 holds up 7 others";
  runs.entries.push_back(std::make_shared<RunEntry>(std::move(read)));
  runs.entries.push_back(std::make_shared<RunEntry>(UnreadEntry("odd \xff name", {1, 0, 2, 3})));
  return runs;
}

TEST(Entries, ComeBackAsTheyWere) {
  const LogdirRuns runs = Some();
  const auto back = ReadEntries(Written(runs), "gs://a");
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->entries.size(), 2u);
  const RunEntry &was = *runs.entries[0], &is = *back->entries[0];
  EXPECT_EQ(is.run, was.run);
  EXPECT_EQ(is.objects, was.objects);
  EXPECT_EQ(is.ns + "/" + is.request, was.ns + "/" + was.request);
  EXPECT_EQ(is.causes, was.causes);
  EXPECT_EQ(is.bytes, was.bytes);
  EXPECT_EQ(is.skew_ns, was.skew_ns);
  EXPECT_EQ(is.headline, was.headline);
  EXPECT_EQ(is.time_ns, was.time_ns);
  EXPECT_EQ(is.searchable, was.searchable);
  EXPECT_TRUE(back->entries[1]->unread);
}

TEST(Entries, OfAFileThatIsDamagedOrForeignAreNotTaken) {
  const std::string text = Written(Some());
  EXPECT_EQ(ReadEntries(text, "gs://b").status().code(), absl::StatusCode::kFailedPrecondition);
  for (std::size_t at = 0; at < text.size(); at += 7) {
    std::string damaged = text;
    damaged[at] ^= 1;
    EXPECT_FALSE(ReadEntries(damaged, "gs://a").ok()) << at;
    EXPECT_FALSE(ReadEntries(text.substr(0, at), "gs://a").ok()) << at;
  }
}

}  // namespace
}  // namespace strobe::catalog
