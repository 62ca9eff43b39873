#include "collector/stall/ras_report.h"

#include <gmock/gmock.h>

#include <string>

#include "common/base/strings.h"

namespace strobe::stall {
namespace {

using testing::HasSubstr;

// The text of NCCL's own documentation of RAS.
constexpr char kMismatch[] = R"(NCCL version 2.24.3 compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  INCOMPLETE,MISMATCH
    1         8         4         1         4        32   RUNNING      OK

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5

DEAD
  2 job processes are considered dead (unreachable via the RAS network)

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different AllReduce operation counts
  26 ranks have launched up to operation 6650
  5 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210
  Rank 3 has not launched any operations -- GPU 3 managed by process 483075 on node 172.16.64.210

)";

std::string Json(std::string_view comma) {
  return StrCat(R"({
  "nccl_version": "2.28.9",
  "cuda_runtime_version": 13020,
  "cuda_driver_version": 13020,
  "timestamp": "2026-11-27 17:15:00",
  "communicators_count": 1,
  "communicators": [
    {
      "hash": "0xe94423cfbb2ef4a",
      "secondary_hash": "0x1:0x2",
      "size": 3,
      "ranks_count": 2,
      "missing_ranks_count": 1,
      "ranks": [
        {
          "rank": 0,
          "host": "10.0.0.7",
          "pid": 100,
          "cuda_dev": 0,
          "nvml_dev": 0,
          "status": {
            "init_state": 7,
            "async_error": 6,
            "finalize_called": false,
            "destroy_flag": false,
            "abort_flag": false
          },
          "collective_counts": {
            "Broadcast": 0,
            "AllReduce": 31
          }
        }
      ],
      "missing_ranks": [
        {
          "rank": 2,
          "host": "unknown",
          "pid": -1,
          "cuda_dev": 2,
          "nvml_dev": 2)",
                comma, R"(
          "status": {
            "unresponsive": true,
            "considered_dead": true
          }
        }
      ]
    }
  ],
  "ras": {
    "collection_time_sec": 5.001,
    "timeouts_count": 1
  }
}
)");
}

TEST(RasReport, ReadsText) {
  const auto report = ReadRasReport(kMismatch);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nccl_version, "2.24.3");
  EXPECT_TRUE(report->whole);
  EXPECT_EQ(report->timeouts, 2);
  EXPECT_EQ(report->missing_processes, 1);
  EXPECT_EQ(report->dead_processes, 2);
  ASSERT_EQ(report->communicators.size(), 1u);
  const RasCommunicator& communicator = report->communicators[0];
  EXPECT_EQ(communicator.hash, "cf264af53edbe986");
  EXPECT_EQ(communicator.size, 32);
  ASSERT_EQ(communicator.missing.size(), 1u);
  EXPECT_EQ(communicator.missing[0].rank, 21);
  EXPECT_EQ(communicator.missing[0].pid, 3487984);
  EXPECT_EQ(communicator.missing[0].host, "172.16.64.213");
  ASSERT_EQ(communicator.usual.size(), 2u);
  EXPECT_EQ(communicator.usual[0].ranks, 26);
  EXPECT_EQ(communicator.usual[0].count, 6650);
  EXPECT_EQ(communicator.usual[1].ranks, 3);  // Five, of which two are named.
  ASSERT_EQ(communicator.ranks.size(), 3u);
  EXPECT_EQ(communicator.ranks[0].counts.at(0).op, "AllReduce");
  EXPECT_EQ(communicator.ranks[0].counts.at(0).count, 6649);
  EXPECT_EQ(communicator.ranks[1].gpu, "2");
  EXPECT_EQ(communicator.ranks[2].rank, 3);
  EXPECT_EQ(communicator.ranks[2].counts.at(0).count, 0);
}

TEST(RasReport, ReadsErrorsAndStatesOfText) {
  const auto report = ReadRasReport(
      "NCCL version 2.30.7 compiled with CUDA 13.2\n"
      "#1-2 (00000000000000ff) ERROR\n"
      "  Asynchronous error on 1 rank\n"
      "  Rank 3 reported Remote process exited or there was a network error -- GPU 3 managed by "
      "process 7 on node fd00::7\n"
      "#1-2 (00000000000000ff) MISMATCH\n"
      "  Communicator ranks have different status\n"
      "  3 ranks have status RUNNING\n"
      "  Rank 1 has status FINALIZE -- [process information not found]\n");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->whole);
  ASSERT_EQ(report->communicators.size(), 1u);
  const RasCommunicator& communicator = report->communicators[0];
  EXPECT_EQ(communicator.size, 0);
  ASSERT_EQ(communicator.ranks.size(), 2u);
  EXPECT_THAT(communicator.ranks[0].trouble, HasSubstr("reported Remote process exited"));
  EXPECT_EQ(communicator.ranks[0].host, "fd00::7");
  EXPECT_EQ(communicator.ranks[1].trouble, "Rank 1 has status FINALIZE");
  EXPECT_TRUE(communicator.ranks[1].counts.empty());
}

TEST(RasReport, ReadsJsonAlsoWithoutTheCommaThatTwoVersionsForget) {
  for (const char* comma : {",", ""}) {
    const auto report = ReadRasReport(Json(comma));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->nccl_version, "2.28.9");
    EXPECT_EQ(report->timeouts, 1);
    ASSERT_EQ(report->communicators.size(), 1u);
    const RasCommunicator& communicator = report->communicators[0];
    EXPECT_EQ(communicator.hash, "0e94423cfbb2ef4a");
    EXPECT_EQ(communicator.size, 3);
    ASSERT_EQ(communicator.ranks.size(), 1u);
    EXPECT_EQ(communicator.ranks[0].init_state, 7);
    EXPECT_EQ(communicator.ranks[0].async_error, 6);
    EXPECT_THAT(communicator.ranks[0].counts,
                testing::Contains(testing::Field(&RasCount::count, 31)));
    ASSERT_EQ(communicator.missing.size(), 1u);
    EXPECT_EQ(communicator.missing[0].rank, 2);
    EXPECT_TRUE(communicator.missing[0].dead);
  }
}

TEST(RasReport, ALineOfOnlyARankTellsNothing) {
  const auto report = ReadRasReport(StrCat(kMismatch, "\n  Rank 7\n"));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->communicators.at(0).ranks.size(), 3u);
}

TEST(RasReport, RefusesWhatIsCutOffOrSomethingElse) {
  const auto refusal = [](std::string_view text) {
    return MessageOf(ReadRasReport(text).status());
  };
  const std::string json = Json(",");
  for (std::size_t size = 1; size + 2 < json.size(); size += 7)
    EXPECT_FALSE(ReadRasReport(json.substr(0, size)).ok()) << size;
  EXPECT_THAT(refusal(json.substr(0, 700)), HasSubstr("ask RAS again"));
  EXPECT_THAT(refusal("{}"), HasSubstr("not an answer"));
  EXPECT_THAT(refusal("ERROR: Unknown command"), HasSubstr("not an answer"));
  EXPECT_THAT(refusal(""), HasSubstr("not an answer"));
}

TEST(WithCommas, PutsOnlyWhatIsForgotten) {
  EXPECT_EQ(WithCommas("\"nvml_dev\": 1\n          \"status\": {"),
            "\"nvml_dev\": 1,\n          \"status\": {");
  EXPECT_EQ(WithCommas("\"nvml_dev\": -1\n\"status\": {\"nvml_dev\": 2\r\n \"status\""),
            "\"nvml_dev\": -1,\n\"status\": {\"nvml_dev\": 2,\r\n \"status\"");
  for (const char* whole : {"", "{}", "\"nvml_dev\": 1,\n\"status\": {",
                            "\"nvml_dev\": ", "\"nvml_dev\": 1\n\"other\": {", "\"nvml_dev\": 7"})
    EXPECT_EQ(WithCommas(whole), whole);
}

TEST(RasText, KeepsTheBeginOfWhatIsSaidOfManyRanks) {
  std::string text = StrCat("NCCL version 2.24.3\n#0-0 (cf264af53edbe986) MISMATCH\n  ",
                            std::string(300'000, 'x'), " error\n");
  for (int rank = 0; rank < 20'000; ++rank)
    text += StrCat("  Rank ", rank, " -- GPU 0 managed by process 1 on node n\n");
  const auto report = ReadRasReport(text);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->communicators.at(0).ranks.size(), 20'000u);
  EXPECT_EQ(report->communicators[0].ranks.back().trouble, std::string(300, 'x'));
}

}  // namespace
}  // namespace strobe::stall
