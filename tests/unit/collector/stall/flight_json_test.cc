#include "collector/stall/flight_json.h"

#include <gmock/gmock.h>

#include <string>

#include "common/base/strings.h"

namespace strobe::stall {
namespace {

using testing::HasSubstr;

// What _dump_fr_trace_json(True, False) of PyTorch 2.15 wrote, with two of its four entries.
constexpr char kTorchJson[] =
    R"({"comm_lib_version":"","entries":[{"collective_seq_id":1,"input_dtypes":["Float"],)"
    R"("input_sizes":[[4,3]],"is_p2p":false,"op_id":1,"output_dtypes":["Float"],)"
    R"("output_sizes":[[4,3]],"p2p_seq_id":0,"pg_id":0,"process_group":["0","default_pg"],)"
    R"("profiling_name":"gloo:all_reduce","record_id":0,"retired":true,"state":"scheduled",)"
    R"("thread_id":"140181791062912","thread_name":"python","time_created_ns":1795821487421394210,)"
    R"("time_discovered_completed_ns":0,"time_discovered_started_ns":0,"timeout_ms":1800000},)"
    R"({"collective_seq_id":4,"input_dtypes":[],"input_sizes":[],"is_p2p":false,"op_id":4,)"
    R"("output_dtypes":[],"output_sizes":[],"p2p_seq_id":0,"pg_id":0,)"
    R"("process_group":["0","default_pg"],"profiling_name":"gloo:barrier","record_id":3,)"
    R"("retired":false,"state":"scheduled","thread_id":"140181791062912","thread_name":"python",)"
    R"("time_created_ns":1795821487432069588,"time_discovered_completed_ns":0,)"
    R"("time_discovered_started_ns":0,"timeout_ms":1800000}],"nccl_comm_state":{},)"
    R"("pg_config":{"0":{"desc":"default_pg","name":"0","ranks":"[0, 1]"}},)"
    R"("pg_status":{"0":{"last_completed_collective":"3","last_enqueued_collective":"4",)"
    R"("last_started_collective":"-1"}},"version":"2.10"})";

TEST(FlightJson, ReadsWhatTorchWrites) {
  const auto record = ReadFlightJson(kTorchJson);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->version, "2.10");
  ASSERT_EQ(record->entries.size(), 2u);
  const FlightEntry& first = record->entries[0];
  EXPECT_EQ(record->op(first), "gloo:all_reduce");
  EXPECT_EQ(record->shape(first), "[[4, 3]] Float");
  EXPECT_EQ(first.created_ns, 1795821487421394210);
  EXPECT_TRUE(first.finished);
  EXPECT_FALSE(record->entries[1].finished);
  EXPECT_EQ(record->entries[1].seq, 4);
  ASSERT_EQ(record->groups.size(), 1u);
  EXPECT_EQ(record->groups[0].ranks, (std::vector<int>{0, 1}));
  ASSERT_EQ(record->statuses.size(), 1u);
  EXPECT_EQ(record->statuses[0].enqueued, 4);
  EXPECT_EQ(record->statuses[0].completed, 3);
}

TEST(FlightJson, RefusesOtherJson) {
  const auto refusal = [](const char* text) { return MessageOf(ReadFlightJson(text).status()); };
  EXPECT_THAT(refusal("{"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"a": 1})"), HasSubstr("no version"));
  EXPECT_THAT(refusal(R"({"version": "2.10", "entries": [1]})"), HasSubstr("no process_group"));
  EXPECT_THAT(refusal(R"({"version": "2.10", "entries": [{"process_group": 1,
                          "collective_seq_id": 1}]})"),
              HasSubstr("pair of texts"));
}

}  // namespace
}  // namespace strobe::stall
