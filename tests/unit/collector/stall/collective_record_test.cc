#include "collector/stall/collective_record.h"

#include <gmock/gmock.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "collector/stall/evidence_files.h"
#include "collector/stall/judge.h"
#include "collector/stall/verdict.h"
#include "common/base/strings.h"

namespace strobe::stall {
namespace {

using RecordJson = nlohmann::ordered_json;

// An array also of one element, which compilers understand differently in braces.
RecordJson List(std::initializer_list<RecordJson> items) {
  RecordJson list = RecordJson::array();
  for (const RecordJson& item : items) list.push_back(item);
  return list;
}

RecordJson Call(int number, const char* call = "AllReduce", int root = 0) {
  return {{"number", number}, {"call", call}, {"type", "Float"},
          {"count", 1024},    {"root", root}, {"begun_ns", 1'700'000'000'000'000'000 + number}};
}

RecordJson Transfer(int peer, const char* call, int number, std::int64_t bytes = 32 << 20) {
  return {{"peer", peer},
          {"call", call},
          {"number", number},
          {"bytes", bytes},
          {"begun_ns", 1'700'000'000'000'000'000 + number}};
}

RecordJson Group(const char* id, int rank, int ranks, RecordJson calls,
                 RecordJson transfers = RecordJson::array()) {
  return {{"id", id},       {"name", "tensor"},          {"rank", rank},
          {"ranks", ranks}, {"calls", std::move(calls)}, {"transfers", std::move(transfers)}};
}

// Both looks of a job in which nothing moves.
JobEvidence Evidence(const std::vector<RecordJson>& group_of_ranks) {
  JobEvidence evidence;
  evidence.world = static_cast<int>(group_of_ranks.size());
  for (std::size_t rank = 0; rank < group_of_ranks.size(); ++rank) {
    RecordJson file;
    file["strobe_collectives"] = 1;
    file["whole"] = true;
    file["communicators"] = List({group_of_ranks[rank]});
    for (const char* look : {"a", "b"})
      EXPECT_TRUE(AddEvidence(StrCat(rank, ".", look, ".nccl"), file.dump(), evidence).ok());
  }
  return evidence;
}

std::vector<int> NamedBy(const Verdict& verdict) {
  std::vector<int> ranks;
  for (const Culprit& culprit : verdict.culprits) ranks.push_back(culprit.rank);
  return ranks;
}

TEST(CollectiveRecord, WhoDidNotComeHoldsUpTheOthers) {
  std::vector<RecordJson> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    RecordJson calls = List({Call(40), Call(41)});
    if (rank != 2) calls.push_back(Call(42));
    ranks.push_back(Group("0xa", rank, 4, calls));
  }
  const Verdict verdict = JudgeStall(Evidence(ranks));
  EXPECT_THAT(NamedBy(verdict), testing::ElementsAre(2));
  EXPECT_TRUE(verdict.looked_at.by_plugin);
  EXPECT_THAT(VerdictText(verdict), testing::HasSubstr("calls of NCCL by 4 ranks"));
}

// Without knowing which calls ended, equal numbers tell nothing.
TEST(CollectiveRecord, EqualNumbersNameNobody) {
  std::vector<RecordJson> ranks;
  for (int rank = 0; rank < 4; ++rank) ranks.push_back(Group("0xa", rank, 4, List({Call(7)})));
  EXPECT_THAT(NamedBy(JudgeStall(Evidence(ranks))), testing::IsEmpty());
}

TEST(CollectiveRecord, AnotherCallUnderTheSameNumberIsAMismatch) {
  std::vector<RecordJson> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    RecordJson calls = List({Call(7, rank == 3 ? "AllGather" : "AllReduce")});
    // Somebody lacks a later call, so that this one may be looked at as not ended.
    ranks.push_back(Group("0xa", rank, 5, calls));
  }
  ranks.push_back(Group("0xa", 4, 5, List({Call(6)})));
  const Verdict verdict = JudgeStall(Evidence(ranks));
  EXPECT_EQ(verdict.kind, StallClass::kMismatch);
  EXPECT_THAT(NamedBy(verdict), testing::ElementsAre(3));
}

// The root of a broadcast goes on without the others.
TEST(CollectiveRecord, ARootDoesNotWait) {
  const std::vector<RecordJson> ranks = {Group("0xa", 0, 2, List({Call(7, "Broadcast", 0)})),
                                         Group("0xa", 1, 2, List({Call(6, "Broadcast", 0)}))};
  const JobEvidence adopted = WithCollectives(Evidence(ranks));
  EXPECT_TRUE(adopted.ranks.at(0).flight->entries.at(0).finished);
  const std::vector<RecordJson> waiting = {Group("0xa", 0, 2, List({Call(7, "Broadcast", 1)})),
                                           Group("0xa", 1, 2, List({Call(6, "Broadcast", 1)}))};
  EXPECT_FALSE(WithCollectives(Evidence(waiting)).ranks.at(0).flight->entries.at(0).finished);
}

TEST(CollectiveRecord, WhoDidNotSendHoldsUpTheReceiver) {
  const std::vector<RecordJson> ranks = {
      Group("0xa", 0, 3, RecordJson::array(),
            List({Transfer(1, "Send", 4), Transfer(1, "Recv", 3)})),
      Group("0xa", 1, 3, RecordJson::array(),
            List({Transfer(0, "Recv", 5), Transfer(0, "Send", 3)})),
      Group("0xa", 2, 3, RecordJson::array())};
  const JobEvidence adopted = WithCollectives(Evidence(ranks));
  const FlightRecord& receiver = *adopted.ranks.at(1).flight;
  ASSERT_EQ(receiver.entries.size(), 2u);
  for (const FlightEntry& entry : receiver.entries)
    EXPECT_EQ(entry.finished, receiver.groups[entry.group].name == "0xa 1 to 0");
  EXPECT_THAT(NamedBy(JudgeStall(Evidence(ranks))), testing::ElementsAre(0));
}

// Small sends end in NCCL's buffers, whether the other side receives or not.
TEST(CollectiveRecord, ASmallSendDoesNotWait) {
  for (const bool large : {false, true}) {
    const std::int64_t bytes = large ? 64 << 20 : 1 << 20;
    const std::vector<RecordJson> ranks = {
        Group("0xa", 0, 2, RecordJson::array(), List({Transfer(1, "Send", 4, bytes)})),
        Group("0xa", 1, 2, RecordJson::array(), List({Transfer(0, "Recv", 3)}))};
    EXPECT_EQ(WithCollectives(Evidence(ranks)).ranks.at(0).flight->entries.at(0).finished, !large);
  }
}

// What the other side recorded may be overwritten.
TEST(CollectiveRecord, ATransferThatIsNotThereMayHaveBeenOverwritten) {
  std::vector<RecordJson> ranks = {
      Group("0xa", 0, 2, RecordJson::array()),
      Group("0xa", 1, 2, RecordJson::array(), List({Transfer(0, "Recv", 500)}))};
  JobEvidence evidence = Evidence(ranks);
  EXPECT_FALSE(WithCollectives(evidence).ranks.at(1).flight->entries.at(0).finished);
  evidence.ranks.at(0).collectives->whole = false;
  EXPECT_TRUE(WithCollectives(evidence).ranks.at(1).flight->entries.at(0).finished);
}

TEST(CollectiveRecord, PyTorchsOwnRecordsTellMore) {
  JobEvidence evidence = Evidence({Group("0xa", 0, 1, List({Call(1)}))});
  EXPECT_TRUE(OnlyCollectivesTell(evidence));
  evidence.ranks[0].flight.emplace();
  EXPECT_TRUE(OnlyCollectivesTell(evidence)) << "an empty one tells nothing";
  evidence.ranks[0].flight->entries.emplace_back();
  EXPECT_FALSE(OnlyCollectivesTell(evidence));
}

TEST(CollectiveRecord, DamagedOnesAreRefused) {
  EXPECT_TRUE(LooksLikeCollectives(R"({"strobe_collectives":1,"communicators":[]})"));
  EXPECT_FALSE(LooksLikeCollectives(R"({"pg_config":{}})"));
  EXPECT_TRUE(ReadCollectives(R"({"strobe_collectives":1,"communicators":[]})").ok());
  for (const char* bad :
       {"{", "[]", R"({"strobe_collectives":2,"communicators":[]})", R"({"strobe_collectives":1})",
        R"({"strobe_collectives":1,"communicators":{}})"})
    EXPECT_EQ(ReadCollectives(bad).status().code(), absl::StatusCode::kDataLoss) << bad;
  const auto odd = ReadCollectives(
      R"({"strobe_collectives":1,"communicators":[5,{"calls":[7,{"number":-1,"root":9e99}]}]})");
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->communicators.at(1).calls.at(1).number, 0);
}

TEST(CollectiveRecord, OneCommunicatorIsOneGroup) {
  RecordJson file = {{"strobe_collectives", 1}, {"whole", true}};
  file["communicators"] = RecordJson::array();
  for (int i = 1; i <= 3; ++i) file["communicators"].push_back(Group("7", 0, 1, List({Call(i)})));
  JobEvidence evidence;
  ASSERT_TRUE(AddEvidence("0.a.nccl", file.dump(), evidence).ok());
  const JobEvidence adopted = WithCollectives(evidence);
  ASSERT_TRUE(adopted.ranks.at(0).flight.has_value());
  EXPECT_EQ(adopted.ranks.at(0).flight->groups.size(), 1u);
  EXPECT_EQ(adopted.ranks.at(0).flight->entries.size(), 3u);
}

}  // namespace
}  // namespace strobe::stall
