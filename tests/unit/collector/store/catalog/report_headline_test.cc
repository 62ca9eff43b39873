#include "collector/store/catalog/report_headline.h"

#include <gmock/gmock.h>

#include "collector/trace/report/run_report.h"
#include "common/base/strings.h"
#include "tests/fakes/memory_store.h"

namespace strobe::catalog {
namespace {

constexpr char kHead[] =
    R"({"format":1,"run":"r","headline":"rank 5 holds up 7 others","figures":{)";

TEST(HeadlineIn, TheRestNeedNotBeThere) {
  EXPECT_EQ(HeadlineIn(kHead), "rank 5 holds up 7 others");
  EXPECT_EQ(HeadlineIn(std::string(kHead).substr(0, 40)), "") << "cut off within the headline";
  EXPECT_EQ(HeadlineIn(R"({"a": {"headline": "inner"}, "b": ["headline"], "headline": "x"})"), "x");
  EXPECT_EQ(HeadlineIn(R"({"headline": {"a": "b"}, "c": "d"})"), "");
  EXPECT_EQ(HeadlineIn(R"(["headline", "x"])"), "");
  for (const char* none : {"", "{", "null", "\"headline\"", "{\"headline\": 3}", "\xff\xfe"})
    EXPECT_EQ(HeadlineIn(none), "") << none;
}

TEST(HeadlineIn, IsBounded) {
  EXPECT_LE(HeadlineIn(StrCat("{\"headline\":\"", std::string(3000, 'x'), "\"")).size(),
            kMaxHeadlineBytes + 10);
  EXPECT_EQ(HeadlineIn(std::string(100'000, '[')), "");
}

TEST(HeadlineIn, IsFoundInWhatIsWritten) {
  const report::MadeReport made = report::RunReport().Finish("capture", "run", 1 << 20);
  ASSERT_FALSE(made.headline.empty());
  EXPECT_EQ(HeadlineIn(made.json), made.headline);
}

TEST(ReadHeadline, ReadsTheBeginOnly) {
  MemoryBucket bucket;
  MemoryStore store(bucket);
  EXPECT_EQ(ReadHeadline(store, "r"), "") << "it has no report";
  ASSERT_TRUE(storage::PutText(store, storage::EvidenceKey("e"), kHead).ok());
  EXPECT_EQ(ReadHeadline(store, "e"), "rank 5 holds up 7 others") << "of a run without a report";
  const std::size_t before = bucket.Count("read");
  ASSERT_TRUE(
      storage::PutText(store, storage::ReportKey("r"), kHead + std::string(1 << 20, ' ')).ok());
  EXPECT_EQ(ReadHeadline(store, "r"), "rank 5 holds up 7 others");
  EXPECT_EQ(bucket.Count("read"), before + 1) << "one request";
}

}  // namespace
}  // namespace strobe::catalog
