#include "collector/stall/flight_dump.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>
#include <string>

#include "common/base/strings.h"
#include "tests/fakes/hang_cases.h"

namespace strobe::stall {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::string PickledText(const std::string& text) {
  std::string size(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) size[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return "X" + size + text;
}

// A dump with these bytes in place of its entries.
std::string PickledDump(const std::string& entries) {
  return "\x80\x02}("s + PickledText("version") + PickledText("2.10") + PickledText("entries") +
         entries + "u.";
}

std::string PickledEntry(const std::string& seq) {
  return "}("s + PickledText("process_group") + PickledText("1") + PickledText("TP") + "\x86" +
         PickledText("collective_seq_id") + seq + PickledText("retired") + "\x88u";
}

std::string Refusal(const std::string& bytes) {
  return MessageOf(ReadFlightPickle(bytes).status());
}

// tests/golden/hangs/facts.py wrote the facts with Python's own pickle.
TEST(FlightPickle, FindsWhatPythonFinds) {
  std::map<std::string, HangCase> cases = UnpackHangCases("cases.tar.gz");
  cases.merge(UnpackHangCases("nvrx.tar.gz"));
  std::ifstream facts(UnitDir() + "/../golden/hangs/facts.tsv");
  int rows = 0;
  for (std::string line; std::getline(facts, line); ++rows) {
    const std::vector<std::string> row = Split(line, '\t');
    const std::size_t slash = row[0].find('/');
    const auto record = ReadFlightPickle(cases[row[0].substr(0, slash)][row[0].substr(slash + 1)]);
    ASSERT_TRUE(record.ok()) << row[0] << " " << record.status();
    std::int64_t seq = 0, finished = 0, p2p = 0, created = 0, names = 0, enqueued = 0, ranks = 0;
    for (const FlightEntry& entry : record->entries) {
      seq += entry.seq;
      finished += entry.finished ? 1 : 0;
      p2p += entry.p2p ? 1 : 0;
      created += entry.created_ns % 1'000'000'007;
      names += static_cast<std::int64_t>(record->op(entry).size());
    }
    for (const FlightStatus& status : record->statuses) enqueued += status.enqueued;
    for (const FlightGroup& group : record->groups)
      ranks += static_cast<std::int64_t>(group.ranks.size());
    EXPECT_EQ(StrCat(row[0], "\t", record->version, "\t", record->entries.size(), "\t", seq, "\t",
                     finished, "\t", p2p, "\t", created, "\t", names, "\t", enqueued, "\t", ranks),
              line);
  }
  EXPECT_EQ(rows, 308);
}

TEST(FlightPickle, ReadsAnEntry) {
  const auto cases = UnpackHangCases("cases.tar.gz");
  const auto record = ReadFlightPickle(cases.at("w4_sleep").at("0.a.fr"));
  ASSERT_TRUE(record.ok()) << record.status();
  const FlightEntry& last = record->entries.back();
  EXPECT_EQ(record->groups[last.group].name, "3");
  EXPECT_EQ(record->groups[last.group].desc, "DP");
  EXPECT_EQ(record->op(last), "gloo:all_reduce");
  EXPECT_EQ(record->shape(last), "[[64, 64]] Float");
  EXPECT_EQ(record->site(last), "");
  EXPECT_EQ(last.seq, 31);
  EXPECT_EQ(last.pg_id, 2);
  EXPECT_EQ(last.created_ns, 1795797220213538402);
  EXPECT_FALSE(last.finished);
}

TEST(FlightPickle, TakesTheDumpOfARecorderThatIsOff) {
  const auto record = ReadFlightPickle("\x80\x02}.");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->entries.empty());
}

TEST(FlightPickle, ReadsNumbersOfAllSizes) {
  for (const auto& [bytes, number] : std::vector<std::pair<std::string, std::int64_t>>{
           {"K\xff"s, 255},
           {"M\x34\x12"s, 0x1234},
           {"J\x01\0\0\0"s, 1},
           {"\x8a\x00"s, 0},
           {"\x8a\x05\0\0\0\0\x01"s, std::int64_t{1} << 32},
           {"G\x40\x59\0\0\0\0\0\0"s, 100}}) {
    const auto record = ReadFlightPickle(PickledDump(PickledEntry(bytes)));
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->entries.at(0).seq, number);
  }
  EXPECT_THAT(Refusal(PickledDump(PickledEntry("J\xff\xff\xff\xff"))), HasSubstr("seq_id"));
  EXPECT_THAT(Refusal(PickledDump(PickledEntry("\x8a\x01\xff"))), HasSubstr("seq_id"));
  EXPECT_THAT(Refusal(PickledDump(PickledEntry("\x8a\x09"))), HasSubstr("64 bits"));
}

TEST(FlightPickle, RefusesEveryOtherOpcode) {
  const std::string allowed = "\x80\x86\x88\x89\x8a(.GJKMNX]ehjqru}";
  EXPECT_EQ(allowed.size(), 21u);
  for (int opcode = 0; opcode < 256; ++opcode) {
    const char byte = static_cast<char>(opcode);
    if (allowed.find(byte) != std::string::npos && opcode != 0x80) continue;
    EXPECT_THAT(Refusal("\x80\x02"s + byte + "os\nsystem\n"),
                testing::AllOf(HasSubstr("offset 2, opcode "), HasSubstr("no such opcode")))
        << opcode;
  }
  // What a hostile pickle does: it names a function and calls it.
  EXPECT_THAT(Refusal("\x80\x02"
                      "cos\nsystem\n"
                      "X\x02\0\0\0id\x85R."s),
              HasSubstr("offset 2, opcode GLOBAL (0x63)"));
  EXPECT_THAT(Refusal("\x80\x04\x95"s), HasSubstr("protocol 4"));
  EXPECT_THAT(Refusal("}."), HasSubstr("begins with PROTO 2"));
}

TEST(FlightPickle, NamesTheOffsetOfDamage) {
  const std::string whole = PickledDump("](" + PickledEntry("K\x01") + "e");
  ASSERT_TRUE(ReadFlightPickle(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(Refusal(whole.substr(0, size)), HasSubstr("offset ")) << size;
  EXPECT_THAT(Refusal(whole + "x"), HasSubstr("1 bytes follow"));
  EXPECT_THAT(Refusal("\x80\x02."), HasSubstr("left over"));
  EXPECT_THAT(Refusal("\x80\x02(u."), HasSubstr("no dict"));
  EXPECT_THAT(Refusal("\x80\x02}e."), HasSubstr("no MARK"));
  EXPECT_THAT(Refusal("\x80\x02N\x86."), HasSubstr("no two values"));
  EXPECT_THAT(Refusal("\x80\x02h\x07."), HasSubstr("no complete memo 7"));
  EXPECT_THAT(Refusal("\x80\x02Nq\x07."), HasSubstr("gap"));
  EXPECT_THAT(Refusal("\x80\x02N."), HasSubstr("not a dict"));
  EXPECT_THAT(Refusal("\x80\x02}(NNu."), HasSubstr("key is not a text"));
}

// Sharing a value in the memo costs two bytes, and would double it each time.
TEST(FlightPickle, BoundsWhatTheMemoMultiplies) {
  std::string bomb = "\x80\x02]q"s + '\0';
  for (char i = 0; i < 8; ++i) {
    bomb += "](";
    for (int k = 0; k < 20; ++k) bomb += "h"s + i;
    bomb += "eq"s + static_cast<char>(i + 1);
  }
  EXPECT_THAT(Refusal(bomb), HasSubstr("too many"));
  EXPECT_THAT(Refusal("\x80\x02" + std::string(1'000'000, 'N')), HasSubstr("too many"));
  EXPECT_THAT(Refusal("\x80\x02" + std::string(1000, '(')), HasSubstr("too many are open"));
  std::string deep = "\x80\x02]";
  for (int i = 0; i < 20; ++i) deep += "](";
  for (int i = 0; i < 20; ++i) deep += "e";
  EXPECT_FALSE(ReadFlightPickle(deep).ok());
}

// By the square of their number, these would take minutes.
TEST(FlightPickle, TakesTimeByTheSizeOfTheDump) {
  std::string pieces = "\x80\x02]";
  for (int i = 0; i < 400'000; ++i) pieces += "(K\x09\x65";
  EXPECT_THAT(Refusal(pieces + "."), HasSubstr("not a dict"));
  pieces = "\x80\x02}";
  for (int i = 0; i < 200'000; ++i) pieces += "(X\0\0\0\0Nu"s;
  EXPECT_THAT(Refusal(pieces + "."), HasSubstr("no version"));
  // Each entry has little of its own, and repeats a long list.
  std::string repeats = "\x80\x02](" + std::string(50'000, 'N') + "eq" + '\0' + "](";
  std::string entry = PickledEntry("K\x01");
  entry.insert(entry.size() - 1, PickledText("frames") + "h" + '\0');
  for (int i = 0; i < 1000; ++i) repeats += entry;
  EXPECT_THAT(Refusal(repeats), HasSubstr("repeats too many"));
}

TEST(FlightPickle, DoesNotShareWhatIsStillFilled) {
  EXPECT_THAT(Refusal("\x80\x02](]q"s + '\0' + "(Neh"s + '\0'), HasSubstr("no complete memo 0"));
}

TEST(FlightPickle, KeepsTheLineOfTheInnermostFrameThatIsNotTorch) {
  const auto frame = [](const std::string& file, const std::string& name) {
    return "}(" + PickledText("name") + PickledText(name) + PickledText("filename") +
           PickledText(file) + PickledText("line") + "K\x0cu";
  };
  std::string entry = PickledEntry("K\x01");
  entry.pop_back();
  entry += PickledText("frames") + "](" + frame("/lib/torch/distributed/c10d.py", "all_reduce") +
           frame("/app/train.py", "step") + "eu";
  const auto record = ReadFlightPickle(PickledDump(entry));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->site(record->entries.at(0)), "/app/train.py:12 in step");
}

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
