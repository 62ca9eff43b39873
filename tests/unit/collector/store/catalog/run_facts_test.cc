#include "collector/store/catalog/run_facts.h"

#include <gmock/gmock.h>

#include "collector/trace/report/run_report.h"
#include "common/base/strings.h"
#include "tests/fakes/memory_store.h"

namespace strobe::catalog {
namespace {

using testing::ElementsAre;

constexpr char kText[] = R"({
  "format": 1, "request": "team/look", "job": "Job/llm", "requester": "jane", "result": "Failed",
  "message": "no", "instantNs": "1000", "skewKnown": true, "skewNs": "300000", "attempt": 2,
  "skewErrorNs": "-1", "synchronized": true, "steps": {"loop": "train", "first": "3"},
  "workers": [
    {"name": "w0", "outcome": "Ok", "bytes": "1000", "events": "5", "rank": 0,
     "processes": [{"outcome": "NoSource", "bytes": "7"}], "job": {"bytes": "9"}, "planes": ["a"]},
    {"name": "w1", "outcome": "LateStart", "bytes": "500"},
    {"name": "w2", "outcome": "WorkerLost"}, {"name": "w3", "outcome": "WorkerLost"}]})";

TEST(ReadManifestFacts, TakesWhatListsShow) {
  std::vector<std::string> names;
  const auto facts =
      ReadManifestFacts(kText, [&](const WorkerFacts& worker) { names.push_back(worker.name); });
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->request, "team/look");
  EXPECT_EQ(facts->job, "Job/llm");
  EXPECT_EQ(facts->requester, "jane");
  EXPECT_EQ(facts->result, "Failed");
  EXPECT_EQ(facts->instant_ns, 1000);
  EXPECT_TRUE(facts->synchronized && facts->skew_known);
  EXPECT_EQ(facts->skew_ns, 300'000);
  EXPECT_EQ(facts->skew_error_ns, -1);
  EXPECT_EQ(facts->workers, 4u);
  EXPECT_EQ(facts->ok, 1u);
  EXPECT_EQ(facts->bytes, 1500u) << "of the workers, not of their processes";
  EXPECT_THAT(facts->causes, ElementsAre(Cause{"WorkerLost", 2}, Cause{"LateStart", 1}));
  EXPECT_THAT(names, ElementsAre("w0", "w1", "w2", "w3"));
}

TEST(ReadManifestFacts, BoundsWhatAHostileManifestCosts) {
  std::string text = R"({"requester": ")" + std::string(1 << 20, 'x') + R"(", "workers": [)";
  for (int i = 0; i < 5000; ++i)
    text += R"({"outcome": "cause-)" + std::to_string(i) + std::string(1000, 'y') + "\"},";
  text += R"({"bytes": "18446744073709551615"}, {"bytes": "18446744073709551615"}]})";
  const auto facts = ReadManifestFacts(text);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->requester.size(), 256u);
  EXPECT_EQ(facts->workers, 5002u);
  EXPECT_EQ(facts->bytes, 18446744073709551615u);
  ASSERT_EQ(facts->causes.size(), kMaxCauses);
  for (const Cause& cause : facts->causes) EXPECT_LE(cause.name.size(), 40u);
  // Nesting takes no stack.
  EXPECT_TRUE(ReadManifestFacts(R"({"a": )" + std::string(1'000'000, '[') +
                                std::string(1'000'000, ']') + "}")
                  .ok());
}

TEST(ReadManifestFacts, RefusesWhatIsNoManifest) {
  for (const char* wrong : {"", "no", "[]", "[{}]", "7", "\"text\"", "{", "{\"a\": \"\xff\"}"})
    EXPECT_EQ(ReadManifestFacts(wrong).status().code(), absl::StatusCode::kInvalidArgument)
        << wrong;
  for (const char* odd : {"{}", R"({"workers": 7})", R"({"workers": [7, [], null]})",
                          R"({"request": [1], "workers": [{"name": {"name": "x"}}]})",
                          R"({"instantNs": "x", "skewNs": 1e300, "bytes": -7})"})
    EXPECT_TRUE(ReadManifestFacts(odd).ok()) << odd;
}

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
