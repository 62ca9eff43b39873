#include "collector/trace/kineto/trace_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "collector/trace/analysis/derived_lines.h"
#include "collector/trace/analysis/steps.h"
#include "collector/trace/convert/align.h"
#include "collector/trace/xplane/flows.h"
#include "collector/trace/xplane/space.h"
#include "collector/trace/xplane/summary.h"
#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

Source Pieces(std::string_view file, std::size_t piece) {
  return [file, piece](std::span<char> room) mutable -> absl::StatusOr<std::size_t> {
    const std::size_t size = std::min({room.size(), file.size(), piece});
    std::memcpy(room.data(), file.data(), size);
    file.remove_prefix(size);
    return size;
  };
}

std::string ValueText(const xplane::Stat& stat) {
  if (const auto* text = std::get_if<std::string_view>(&stat.value)) return std::string(*text);
  if (const auto* number = std::get_if<double>(&stat.value)) return std::to_string(*number) + "d";
  if (const auto* natural = std::get_if<std::uint64_t>(&stat.value))
    return std::to_string(*natural) + "u";
  return std::to_string(stat.Integer().value_or(-1));
}

// "plane | line | name @begin +duration stat=value ...", with times in ns.
std::vector<std::string> EventTexts(const xplane::Space& space) {
  std::vector<std::string> texts;
  for (const xplane::Plane& plane : space.planes) {
    for (const xplane::Line& line : plane.lines) {
      EXPECT_TRUE(xplane::ForEachEvent(line, [&](const xplane::Event& event) {
                    std::string text = std::string(plane.name) + " | " + std::string(line.name) +
                                       " | " + std::string(plane.NameOf(event));
                    const std::int64_t begin = line.timestamp_ns * 1000 + event.offset_ps;
                    text += " @" + std::to_string(begin) + " +" + std::to_string(event.duration_ps);
                    EXPECT_TRUE(xplane::ForEachStat(plane, event, [&](const xplane::Stat& stat) {
                                  text +=
                                      " " + std::string(plane.NameOf(stat)) + "=" + ValueText(stat);
                                }).ok());
                    texts.push_back(text);
                  }).ok());
    }
  }
  return texts;
}

struct Converted {
  absl::Status status{};
  std::string bytes{};
  ReadReport report{};
  xplane::Space space{};
  std::vector<std::string> events{};
};

Converted Convert(std::string_view file, std::size_t piece = 1 << 20) {
  Converted result;
  absl::StatusOr<std::string> bytes = ReadTraceFile(Pieces(file, piece), result.report);
  result.status = bytes.status();
  if (!bytes.ok()) return result;
  result.bytes = *std::move(bytes);
  absl::StatusOr<xplane::Space> space = xplane::Space::Read(result.bytes);
  EXPECT_TRUE(space.ok()) << space.status();
  if (space.ok()) result.space = *std::move(space);
  result.events = EventTexts(result.space);
  return result;
}

// A file with these events.
Converted ConvertEvents(std::string_view events) {
  return Convert("{\"traceEvents\":[" + std::string(events) + "]}");
}

std::vector<std::string> PlaneStats(const xplane::Space& space, std::string_view name) {
  std::vector<std::string> stats;
  const xplane::Plane* plane = space.Find(name);
  if (plane == nullptr) return stats;
  EXPECT_TRUE(plane
                  ->ForEachStat([&](const xplane::Stat& stat) {
                    stats.push_back(std::string(plane->NameOf(stat)) + "=" + ValueText(stat));
                  })
                  .ok());
  return stats;
}

// As PyTorch 2.15 writes it, with one of everything.
constexpr std::string_view kKineto = R"json({
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85899345920, "computeMajor": 9,
     "computeMinor": 0, "numSms": 132}
  ],
  "trace_id": "D84D", "host_name": "node-1", "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": [
  {"ph": "M", "name": "process_name", "ts": 1000.000, "pid": 1, "tid": 0, "args": {"name": "python"}},
  {"ph": "M", "name": "process_labels", "ts": 1000.000, "pid": 1, "tid": 0, "args": {"labels": "CPU"}},
  {"ph": "M", "name": "process_name", "ts": 1000.000, "pid": 0, "tid": 0, "args": {"name": "python"}},
  {"ph": "M", "name": "thread_name", "ts": 1000.000, "pid": 1, "tid": 1, "args": {"name": "thread 1 (python)"}},
  {"ph": "M", "name": "thread_name", "ts": 1000.000, "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#12", "pid": 1, "tid": 1,
   "ts": 1010.000, "dur": 900.500, "args": {"External id": 1}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1011.001, "dur": 20.002,
   "args": {"External id": 2, "Sequence number": 5, "Input Dims": [[2, 3], [3, 4]], "finished": false}},
  {"ph": "s", "id": 7, "pid": 1, "tid": 1, "ts": 1011.001, "cat": "fwdbwd", "name": "fwdbwd"},
  {"ph": "X", "cat": "python_function", "name": "train.py(3): f", "pid": 1, "tid": 1,
   "ts": 1010.500, "dur": 100, "args": {"Python id": 4, "Python parent id": null}},
  {"ph": "X", "cat": "cpu_op", "name": "MmBackward0", "pid": 1, "tid": 2, "ts": 1300, "dur": 5, "args": {}},
  {"ph": "f", "id": 7, "pid": 1, "tid": 2, "ts": 1300, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
   "ts": 1015, "dur": 3, "args": {"External id": 2, "cbid": 211, "correlation": 31}},
  {"ph": "s", "id": 31, "pid": 1, "tid": 1, "ts": 1015, "cat": "ac2g", "name": "ac2g"},
  {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": 1020.250, "dur": 9.5,
   "args": {"device": 0, "context": 1, "stream": 7, "correlation": 31, "registers per thread": 32,
            "shared memory": 1024, "grid": [4, 2, 1], "block": [128, 1, 1], "est. achieved occupancy %": 50}},
  {"ph": "f", "id": 31, "pid": 0, "tid": 7, "ts": 1020.250, "cat": "ac2g", "name": "ac2g", "bp": "e"},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7,
   "ts": 1040, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 32, "bytes": 4096, "memory bandwidth (GB/s)": 2.5}},
  {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 20, "ts": 1050, "dur": 1,
   "args": {"device": 0, "stream": 20, "correlation": 33, "bytes": 16}},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#12", "pid": 0, "tid": 7, "ts": 1020, "dur": 30,
   "args": {"External id": 1}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 20, "ts": 1060, "dur": 10,
   "args": {"device": 0, "stream": 20, "correlation": 34, "Collective name": "allreduce", "In msg nelems": 1024,
            "dtype": "Float", "Group size": 8, "Process Group Ranks": [0, 1]}},
  {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1012,
   "args": {"Total Reserved": 0, "Total Allocated": 512, "Bytes": 128, "Addr": 94, "Device Id": -1, "Device Type": 0}},
  {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1013,
   "args": {"Total Reserved": 2048, "Total Allocated": 1024, "Bytes": 64, "Addr": 95, "Device Id": 0, "Device Type": 1}},
  {"ph": "X", "cat": "Trace", "ts": 1000, "dur": 1000, "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)"},
  {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 2500}
  ],
  "traceName": "/tmp/x.json"
})json";

// What the trace says, without what depends on the order of the file: the order of events and of
// stats, and the numbers of arrows.
struct Said {
  std::multiset<std::string> events{}, arrows{}, environment{};
  std::vector<std::uint64_t> counts{};
  bool operator==(const Said&) const = default;
};

Said SaidBy(const Converted& trace) {
  Said said;
  std::map<std::uint64_t, std::multiset<std::string>> ends;
  for (const xplane::Plane& plane : trace.space.planes) {
    for (const xplane::Line& line : plane.lines) {
      EXPECT_TRUE(xplane::ForEachEvent(line, [&](const xplane::Event& event) {
                    const std::string text =
                        StrCat(plane.name, " | ", line.name, " | ", plane.NameOf(event), " @",
                               line.timestamp_ns * 1000 + event.offset_ps, " +", event.duration_ps);
                    std::multiset<std::string> stats;
                    EXPECT_TRUE(xplane::ForEachStat(plane, event, [&](const xplane::Stat& stat) {
                                  const std::string_view name = plane.NameOf(stat);
                                  if (name != "flow") {
                                    stats.insert(StrCat(name, "=", ValueText(stat)));
                                    return;
                                  }
                                  const auto flow =
                                      static_cast<std::uint64_t>(stat.Integer().value_or(0));
                                  ends[flow >> 2].insert(StrCat(flow & 3, " ", text));
                                }).ok());
                    said.events.insert(StrCat(text, " ", absl::StrJoin(stats, " ")));
                  }).ok());
    }
  }
  for (const auto& [id, texts] : ends) said.arrows.insert(absl::StrJoin(texts, " / "));
  for (const std::string& stat : PlaneStats(trace.space, "Task Environment")) {
    // A text with many keys, which stay in their order.
    if (!stat.starts_with("deviceProperties=")) said.environment.insert(stat);
  }
  for (const std::string_view warning : trace.space.warnings) said.environment.emplace(warning);
  const ReadReport& report = trace.report;
  said.counts = {report.events,    report.spans,          report.recorded,   report.flows,
                 report.malformed, report.unmatched_ends, report.unfinished, report.bad_time};
  return said;
}

using OrderedJson = nlohmann::ordered_json;

// Writes JSON with other white space, and with the members of its objects in another order.
class OtherWriter {
 public:
  explicit OtherWriter(std::uint64_t seed) : random_(seed), style_(seed % 5) {}

  std::string Write(const OrderedJson& json) {
    text_.clear();
    Append(json, 0);
    return text_;
  }
  OrderedJson Shuffled(OrderedJson events) {
    std::shuffle(events.begin(), events.end(), random_);
    return events;
  }

 private:
  enum Place { kInside, kBeforeColon, kBehindSeparator };

  void Space(Place place, std::size_t depth) {
    constexpr std::array<std::string_view, 6> kSpaces = {"", " ", "\n", "\t", "\r\n", "   \n \t"};
    const std::string indent(2 * depth, ' ');
    if (style_ == 1 && place == kBehindSeparator) text_ += " ";
    if (style_ == 2 && place != kBeforeColon) text_ += StrCat("\n", indent);
    if (style_ == 3) text_ += "\t\r\n";
    if (style_ == 4) text_ += kSpaces[random_() % kSpaces.size()];
  }
  void Append(const OrderedJson& json, std::size_t depth) {
    if (!json.is_structured()) {
      text_ += json.dump();
      return;
    }
    text_ += json.is_object() ? "{" : "[";
    std::vector<std::pair<std::string, OrderedJson>> members;
    if (json.is_object())
      for (const auto& [key, value] : json.items()) members.emplace_back(key, value);
    else
      for (const OrderedJson& value : json) members.emplace_back("", value);
    if (json.is_object()) std::shuffle(members.begin(), members.end(), random_);
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i > 0) text_ += ",";
      Space(i > 0 ? kBehindSeparator : kInside, depth + 1);
      if (json.is_object()) {
        text_ += OrderedJson(members[i].first).dump();
        Space(kBeforeColon, depth + 1);
        text_ += ":";
        if (style_ != 0) text_ += " ";
      }
      Append(members[i].second, depth + 1);
      if (style_ == 4) Space(kInside, depth + 1);
    }
    Space(kInside, depth);
    text_ += json.is_object() ? "}" : "]";
  }

  std::mt19937_64 random_;
  const std::uint64_t style_;
  std::string text_{};
};

// With beginnings and ends that stand apart, counters, texts and lists of all kinds.
constexpr std::string_view kApart = R"json({"traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "a b , c : [ d ]", "uptime": 5}},
  {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": 2, "args": {"sort_index": 4}},
  {"ph": "B", "name": "outer", "cat": "x", "pid": 1, "tid": 1, "ts": 10, "args": {"a": [1, {"b": "]  }"}]}},
  {"ph": "B", "name": "inner", "cat": "x", "pid": 1, "tid": 1, "ts": 12.5},
  {"ph": "E", "pid": 1, "tid": 1, "ts": 15, "args": {"c": [2, [3, 4]]}},
  {"ph": "B", "name": "crossing", "pid": 1, "tid": 1, "ts": 16},
  {"ph": "E", "name": "outer", "pid": 1, "tid": 1, "ts": 20},
  {"ph": "E", "name": "crossing", "pid": 1, "tid": 1, "ts": 23},
  {"ph": "B", "name": "open", "pid": 1, "tid": 2, "ts": 30},
  {"ph": "E", "name": "alone", "pid": 1, "tid": 3, "ts": 31},
  {"ph": "b", "name": "one", "cat": "n", "id": 1, "pid": 1, "tid": 1, "ts": 11},
  {"ph": "b", "name": "two", "cat": "n", "id": 1, "pid": 1, "tid": 1, "ts": 13},
  {"ph": "n", "name": "mark", "cat": "n", "id": 1, "pid": 1, "tid": 1, "ts": 14},
  {"ph": "e", "name": "one", "cat": "n", "id": 1, "pid": 1, "tid": 1, "ts": 40, "args": {"d": []}},
  {"ph": "e", "name": "two", "cat": "n", "id": 1, "pid": 1, "tid": 1, "ts": 42},
  {"ph": "b", "name": "local", "cat": "n", "id2": {"local": "0x1"}, "pid": 1, "tid": 1, "ts": 17},
  {"ph": "b", "name": "local", "cat": "n", "id2": {"local": "0x1"}, "pid": 2, "tid": 1, "ts": 18},
  {"ph": "e", "name": "local", "cat": "n", "id2": {"local": "0x1"}, "pid": 1, "tid": 1, "ts": 50},
  {"ph": "e", "name": "local", "cat": "n", "id2": {"local": "0x1"}, "pid": 2, "tid": 1, "ts": 53},
  {"ph": "S", "name": "old", "cat": "o", "id": "7", "pid": 1, "tid": 1, "ts": 60},
  {"ph": "T", "name": "old", "cat": "o", "id": "7", "pid": 1, "tid": 1, "ts": 61, "args": {"step": "a"}},
  {"ph": "F", "name": "old", "cat": "o", "id": "7", "pid": 1, "tid": 1, "ts": 63},
  {"ph": "C", "name": "memory", "pid": 1, "ts": 12, "args": {"used": 10, "free": 2.5}},
  {"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 70, "dur": 5, "args": {"l": [1.5, "a,b", null, true, [[]], {"k": {}}], "e": {}}},
  {"ph": "i", "name": "i", "pid": 1, "tid": 1, "ts": 71, "s": "t"}
  ], "metadata": {"list": [1, 2, {"a": ["b , c"]}]}, "displayTimeUnit": "ms"})json";

// An event as many writers have them, of which each test damages some.
std::string EventNumber(int number) {
  return StrCat(R"({"ph": "X", "cat": "cpu_op", "name": "op)", number,
                R"(", "pid": 1, "tid": 1, "ts": )", 1000 + 10 * number,
                R"(, "dur": 5, "args": {"External id": )", number, R"(, "l": [1, {"m": 2}]}})");
}

// The numbers of the events that were read.
std::set<int> NumbersOf(const Converted& trace) {
  std::set<int> numbers;
  for (const std::string& event : trace.events) {
    const std::size_t at = event.find(" | op");
    if (at != std::string::npos) numbers.insert(std::stoi(event.substr(at + 5)));
  }
  return numbers;
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

struct DamageKind {
  std::string_view name{};
  std::string (*apply)(const std::string&){};
};

constexpr DamageKind kKinds[] = {
    {"no opening quote of a key",
     [](const std::string& e) { return Replaced(e, "\"tid\"", "tid\""); }},
    {"no closing quote of a key",
     [](const std::string& e) { return Replaced(e, "\"tid\"", "\"tid"); }},
    {"no opening quote of a text", [](const std::string& e) { return Replaced(e, "\"op", "op"); }},
    {"a quote too many",
     [](const std::string& e) { return Replaced(e, "\"cpu_op\"", "\"cpu_op\"\""); }},
    {"a path of Windows",
     [](const std::string& e) { return Replaced(e, "\"cpu_op\"", R"("E:\dir\")"); }},
    {"no brace at the end", [](const std::string& e) { return e.substr(0, e.size() - 1); }},
    {"no bracket of a list", [](const std::string& e) { return Replaced(e, "]", ""); }},
    {"a bracket too many", [](const std::string& e) { return Replaced(e, "]", "]]"); }},
    {"no colon", [](const std::string& e) { return Replaced(e, "\"dur\":", "\"dur\""); }},
    {"no comma", [](const std::string& e) { return Replaced(e, "1, \"ts\"", "1 \"ts\""); }},
};

}  // namespace

TEST(TraceFile, AThreadHasItsOwnNameIfKinetoTellsTwo) {
  constexpr std::pair<int, std::string_view> kTold[] = {
      {1, "python3"},       {2, "python3"},       {2, "pt_autograd_0"}, {3, "pt_autograd_1"},
      {3, "strobe-inproc"}, {4, "strobe-inproc"}, {5, "python3"}};
  std::string events;
  for (const auto& [tid, name] : kTold)
    events += StrCat(R"({"ph": "M", "name": "thread_name", "pid": 1, "tid": )", tid,
                     R"(, "args": {"name": "thread )", tid, " (", name, ")\"}},");
  for (int tid = 1; tid <= 5; ++tid)
    events += StrCat(R"({"ph": "X", "name": "op", "ts": 1, "dur": 1, "pid": 1, "tid": )", tid,
                     tid < 5 ? "}," : "}");
  const Converted trace = Convert(StrCat(R"({"traceEvents": [)", events, "]}"));
  ASSERT_TRUE(trace.status.ok()) << trace.status;
  std::vector<std::string> lines;
  for (const xplane::Line& line : trace.space.planes[0].lines) lines.emplace_back(line.name);
  EXPECT_THAT(lines,
              UnorderedElementsAre("thread 1 (python3)", "thread 2 (pt_autograd_0)",
                                   "thread 3 (pt_autograd_1)", "thread 4", "thread 5 (python3)"));
}

// Traces of other programs have names without brackets, of which the last one counts.
TEST(TraceFile, AThreadThatIsRenamedHasItsLastName) {
  const Converted trace = Convert(R"({"traceEvents": [
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "worker"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "trainer"}},
    {"ph": "X", "name": "op", "ts": 1, "dur": 1, "pid": 1, "tid": 2}]})");
  ASSERT_TRUE(trace.status.ok()) << trace.status;
  EXPECT_EQ(trace.space.planes[0].lines[0].name, "trainer");
}

TEST(TraceFile, KinetosEventsBecomeThePlanesOfXla) {
  const Converted trace = Convert(kKineto);
  ASSERT_TRUE(trace.status.ok()) << trace.status;
  EXPECT_THAT(
      trace.events,
      UnorderedElementsAre(
          // Threads. Names, shapes, sequence numbers and Python functions.
          "/host:CPU | thread 1 (python) | ProfilerStep @10000000 +900500000 step_num=12 _r=1 "
          "_own_name=ProfilerStep#12 cat=user_annotation External id=1",
          AllOf(HasSubstr("/host:CPU | thread 1 (python) | aten::mm @11001000 +20002000 cat=cpu_op "
                          "External id=2 Sequence number=5 Input Dims=[[2, 3], [3, 4]] "
                          "finished=false flops=48u flow=")),
          "/host:CPU | thread 1 (python) | train.py(3): f @10500000 +100000000 "
          "cat=python_function Python id=4 Python parent id=null",
          HasSubstr("/host:CPU | thread 2 | MmBackward0 @300000000 +5000000 cat=cpu_op flow="),
          "/host:CPU | thread 1 (python) | cudaLaunchKernel @15000000 +3000000 cat=cuda_runtime "
          "External id=2 cbid=211 correlation_id=31",
          // Streams.
          "/device:GPU:0 | Stream #7(Compute,MemcpyH2D) | sgemm @20250000 +9500000 cat=kernel "
          "device=0 context=1 stream=7 correlation_id=31 shared memory=1024 "
          "est. achieved occupancy %=50 kernel_details=regs:32 static_shared:1024 "
          "dynamic_shared:0 grid:4,2,1 block:128,1,1 occ_pct:50",
          "/device:GPU:0 | Stream #7(Compute,MemcpyH2D) | Memcpy HtoD (Pinned -> Device) @40000000 "
          "+2000000 cat=gpu_memcpy device=0 stream=7 correlation_id=32 bytes=4096 memory bandwidth "
          "(GB/s)=2.500000d memcpy_details=kind_src:pinned kind_dst:device size:4096",
          "/device:GPU:0 | Stream #20(Compute,Memset) | Memset (Device) @50000000 +1000000 "
          "cat=gpu_memset device=0 stream=20 correlation_id=33 bytes=16",
          "/device:GPU:0 | Stream #20(Compute,Memset) | ncclDevKernel_AllReduce @60000000 "
          "+10000000 cat=kernel device=0 stream=20 correlation_id=34 Collective name=allreduce In "
          "msg nelems=1024 dtype=Float Group size=8 Process Group Ranks=[0, 1]",
          // What is on a stream without being work has a line of its own.
          "/device:GPU:0 | Stream #7 gpu_user_annotation | ProfilerStep @20000000 +30000000 "
          "step_num=12 _r=1 _own_name=ProfilerStep#12 cat=gpu_user_annotation External id=1",
          // Memory. The value comes first.
          "/host:CPU | _counters_ | Total Allocated @12000000 +0 Total Allocated=512 Bytes=128 "
          "Addr=94 Device Id=-1 Device Type=0 tid=1",
          "/host:CPU | _counters_ | Total Reserved @12000000 +0 Total Reserved=0",
          "/device:GPU:0 | _counters_ | Total Allocated @13000000 +0 Total Allocated=1024 Bytes=64 "
          "Addr=95 Device Id=0 Device Type=1 tid=1",
          "/device:GPU:0 | _counters_ | Total Reserved @13000000 +0 Total Reserved=2048",
          // What the profiler writes about itself.
          "/host:CPU | Spans/PyTorch Profiler | PyTorch Profiler (0) @0 +1000000000 cat=Trace",
          "/host:CPU | no thread | Record Window End @1500000000 +0 s=g"));
  EXPECT_THAT(PlaneStats(trace.space, "/device:GPU:0"),
              UnorderedElementsAre("gpu_device_name=NVIDIA H100", "memory_size=85899345920",
                                   "compute_cap_major=9", "compute_cap_minor=0", "core_count=132"));
  EXPECT_THAT(PlaneStats(trace.space, "Task Environment"),
              AllOf(Contains("profile_start_time=1790857026001000000u"),
                    Contains("profile_stop_time=1790857026002500000u"), Contains("trace_id=D84D"),
                    Contains("schemaVersion=1"), Contains("traceName=/tmp/x.json"),
                    Contains("process_labels=pid 1 tid 0 labels=CPU"),
                    Contains("process_name=pid 1 python")));
  EXPECT_THAT(trace.space.hostnames, ElementsAre("node-1"));
  EXPECT_THAT(trace.space.warnings, IsEmpty());
  EXPECT_EQ(trace.report.events, 23u);
  EXPECT_EQ(trace.report.flows, 4u);
  EXPECT_EQ(trace.report.joined_flows, 2u);
}

TEST(TraceFile, StreamsOfOldFilesHaveTheirNumber) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"X","cat":"Kernel","name":"gemm","pid":0,"tid":"stream 7","ts":1,"dur":2,"args":{"device":0,"stream":7}})");
  EXPECT_THAT(trace.events, ElementsAre(HasSubstr("| Stream #7(Compute) | gemm @")));
}

TEST(TraceFile, AllocationsOfOldFilesHaveNoCategory) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":1,"args":{"Device Type":0,"Device Id":-1,"Bytes":4}},
    {"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":2,"args":{"Device Type":1,"Device Id":0,"Bytes":-8}})");
  EXPECT_THAT(trace.events,
              UnorderedElementsAre("/host:CPU | _counters_ | Bytes @0 +0 Bytes=4 Device Type=0 "
                                   "Device Id=-1 tid=1",
                                   "/device:GPU:0 | _counters_ | Bytes @1000000 +0 Bytes=-8 "
                                   "Device Type=1 Device Id=0 tid=1"));
}

TEST(TraceFile, LinksLeadFromLaunchToKernelAndFromForwardToBackward) {
  const Converted trace = Convert(kKineto);
  std::multiset<std::string> ends;  // "id>name" and "id<name"
  for (const xplane::Plane& plane : trace.space.planes) {
    const xplane::FlowReader flows(plane);
    for (const xplane::Line& line : plane.lines) {
      ASSERT_TRUE(xplane::ForEachEvent(line, [&](const xplane::Event& event) {
                    ASSERT_TRUE(flows
                                    .Read(event,
                                          [&](std::uint64_t id, bool incoming) {
                                            ends.insert(std::to_string(id) +
                                                        (incoming ? "<" : ">") +
                                                        std::string(plane.NameOf(event)));
                                          })
                                    .ok());
                  }).ok());
    }
  }
  const auto partner = [&](std::string_view name) {
    for (const std::string& end : ends) {
      if (!end.ends_with(">" + std::string(name))) continue;
      const std::string id = end.substr(0, end.find('>'));
      for (const std::string& other : ends) {
        if (other.starts_with(id + "<")) return other.substr(other.find('<') + 1);
      }
    }
    return std::string();
  };
  EXPECT_EQ(partner("cudaLaunchKernel"), "sgemm");
  EXPECT_EQ(partner("aten::mm"), "MmBackward0");
}

TEST(TraceFile, AnArrowOfALaunchIsItsCorrelationInAllVersionsOfPyTorch) {
  for (const std::string_view arrow :
       {R"("cat":"ac2g","name":"ac2g")", R"("cat":"async_cpu_to_gpu","name":"async_gpu")",
        R"("cat":"async_gpu","name":"cudaLaunchKernel")", R"("cat":"async","name":"launch")"}) {
    const Converted trace = ConvertEvents(StrCat(
        R"({"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":1,"dur":3,"args":{"correlation":5}},
           {"ph":"s","id":5,"pid":1,"tid":1,"ts":1,)",
        arrow, R"(},
           {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":2,"dur":9,"args":{"stream":7,"correlation":5}},
           {"ph":"f","id":5,"pid":0,"tid":7,"ts":2,"bp":"e",)",
        arrow, "}"));
    EXPECT_EQ(trace.report.joined_flows, 2u) << arrow;
  }
}

TEST(TraceFile, StepsAreFound) {
  const Converted trace = Convert(kKineto);
  const absl::StatusOr<std::vector<analysis::Step>> steps = analysis::FindSteps(trace.space);
  ASSERT_TRUE(steps.ok());
  ASSERT_THAT(*steps, SizeIs(1));
  EXPECT_EQ(steps->front().name, "ProfilerStep");
  EXPECT_EQ(steps->front().number, 12);
}

// As for XLA's traces: the kernel was launched during step 12.
TEST(TraceFile, BatchesOfInferenceServersBecomeStats) {
  const Converted trace = ConvertEvents(
      R"({"ph": "X", "cat": "user_annotation", "name": "engine#812 p=1/468 d=9/9", "pid": 1,
          "tid": 1, "ts": 10, "dur": 5},
         {"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=8]", "pid": 1, "tid": 1,
          "ts": 11, "dur": 2})");
  ASSERT_TRUE(trace.status.ok()) << trace.status;
  EXPECT_THAT(trace.events,
              UnorderedElementsAre(
                  AllOf(HasSubstr(" | engine @"),
                        HasSubstr("step_num=812 _r=1 prefill_requests=1 prefill_tokens=468 "
                                  "decode_requests=9 decode_tokens=9 "
                                  "_own_name=engine#812 p=1/468 d=9/9 cat=user_annotation")),
                  AllOf(HasSubstr(" | step[DECODE] @"),
                        HasSubstr("decode_requests=8 _own_name=step[DECODE bs=8]"))));
}

TEST(TraceFile, StepsOfTheDeviceAreDerived) {
  const Converted trace = Convert(kKineto);
  const absl::StatusOr<std::string> bytes = analysis::DeriveLines(trace.space);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const absl::StatusOr<xplane::Space> derived = xplane::Space::Read(*bytes);
  ASSERT_TRUE(derived.ok()) << derived.status();
  EXPECT_THAT(
      EventTexts(*derived),
      AllOf(Contains("/device:GPU:0 | Steps | ProfilerStep 12 @20250000 +9500000 group_id=0"),
            Contains(HasSubstr("/device:GPU:0 | Launch Stats | ProfilerStep 12"))));
}

TEST(TraceFile, GivesTheSameInPiecesOfAnySize) {
  const std::string whole = Convert(kKineto).bytes;
  for (const std::size_t piece : {1, 3, 63, 64, 65, 1000})
    EXPECT_EQ(Convert(kKineto, piece).bytes, whole) << piece;
}

// A file that somebody else writes, or that was cut, must not crash or hang anything, and the
// result must be readable.
TEST(TraceFile, MayBeCutAtAnyByte) {
  for (std::size_t size = 0; size < kKineto.size(); ++size) {
    const Converted trace = Convert(kKineto.substr(0, size));
    const bool has_events = size > kKineto.find("\"traceEvents\": [") + 15;
    EXPECT_EQ(trace.status.ok(), has_events) << size << trace.status;
    if (!has_events && size > kKineto.find('{')) {
      EXPECT_THAT(MessageOf(trace.status), HasSubstr("cut before its first event, so that nothing "
                                                     "can be shown; copy the file again"));
    }
    if (!has_events) continue;
    EXPECT_THAT(trace.space.warnings, Contains(HasSubstr("its end is missing"))) << size;
    const std::string events = trace.report.spans == 0
                                   ? "no event came before"
                                   : StrCat("the ", trace.report.spans, " event");
    EXPECT_THAT(trace.space.warnings, Contains(AllOf(HasSubstr(events), HasSubstr(kCutRemedy))))
        << size;
  }
}

TEST(TraceFile, EventsWithBeginAndEndAreJoined) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"B","name":"outer","pid":1,"tid":1,"ts":10,"args":{"a":1}},
    {"ph":"B","name":"inner","pid":1,"tid":1,"ts":12},
    {"ph":"B","name":"other thread","pid":1,"tid":2,"ts":13},
    {"ph":"E","pid":1,"tid":1,"ts":15,"args":{"b":2}},
    {"ph":"E","pid":1,"tid":2,"ts":16},
    {"ph":"E","name":"outer","pid":1,"tid":1,"ts":20},
    {"ph":"E","pid":1,"tid":1,"ts":21},
    {"ph":"B","name":"open","pid":1,"tid":1,"ts":30},
    {"ph":"i","name":"last","pid":1,"tid":1,"ts":40,"s":"t"})");
  EXPECT_THAT(trace.events, UnorderedElementsAre(
                                "/host:CPU | thread 1 | inner @2000000 +3000000 b=2",
                                "/host:CPU | thread 2 | other thread @3000000 +3000000",
                                "/host:CPU | thread 1 | outer @0 +10000000 a=1",
                                "/host:CPU | thread 1 | last @30000000 +0 s=t",
                                "/host:CPU | thread 1 | open @20000000 +10000000 finished=false"));
  EXPECT_THAT(trace.space.warnings,
              UnorderedElementsAre(HasSubstr("1 end of events"), HasSubstr("1 event had no end")));
}

TEST(TraceFile, AsynchronousEventsGetALinePerCategory) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"b","cat":"net","name":"request","id":"0x1","pid":1,"tid":1,"ts":10},
    {"ph":"b","cat":"net","name":"request","id":"0x2","pid":1,"tid":1,"ts":11},
    {"ph":"n","cat":"net","name":"redirect","id":"0x1","pid":1,"tid":2,"ts":12},
    {"ph":"e","cat":"net","name":"request","id":"0x1","pid":1,"tid":2,"ts":20,"args":{"status":200}},
    {"ph":"e","cat":"net","name":"request","id":"0x2","pid":1,"tid":1,"ts":21},
    {"ph":"S","cat":"io","name":"read","id":7,"pid":1,"tid":1,"ts":10},
    {"ph":"F","cat":"io","name":"read","id":7,"pid":1,"tid":1,"ts":13})");
  EXPECT_THAT(trace.events,
              UnorderedElementsAre(
                  "/host:CPU | async net | redirect @2000000 +0 cat=net id=0x1 tid=2 ph=n",
                  "/host:CPU | async net | request @0 +10000000 cat=net id=0x1 tid=1 status=200",
                  "/host:CPU | async net | request @1000000 +10000000 cat=net id=0x2 tid=1",
                  "/host:CPU | async io | read @0 +3000000 cat=io id=7 tid=1"));
  EXPECT_EQ(trace.report.unread(), 0u);
}

// Regression: the end in another process was not found, and the event lasted until the trace's end.
TEST(TraceFile, AsynchronousEventsMayEndInAnotherProcess) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"b","cat":"net","name":"id","id":"0x5","pid":1,"tid":1,"ts":10},
    {"ph":"b","cat":"net","name":"global","id2":{"global":"0x6"},"pid":1,"tid":1,"ts":10},
    {"ph":"b","cat":"net","name":"local","id2":{"local" : "0x7"},"pid":1,"tid":1,"ts":10},
    {"ph":"b","cat":"net","name":"local","id2":{"local" : "0x7"},"pid":2,"tid":1,"ts":11},
    {"ph":"b","cat":"io","name":"own","id":"0x8","pid":1,"tid":1,"ts":10},
    {"ph":"b","cat":"io","name":"own","id":"0x8","pid":2,"tid":1,"ts":11},
    {"ph":"e","cat":"net","name":"id","id":"0x5","pid":2,"tid":1,"ts":20},
    {"ph":"e","cat":"net","name":"global","id2":{"global":"0x6"},"pid":2,"tid":1,"ts":20},
    {"ph":"e","cat":"net","name":"local","id2":{"local" : "0x7"},"pid":1,"tid":1,"ts":20},
    {"ph":"e","cat":"net","name":"local","id2":{"local" : "0x7"},"pid":2,"tid":1,"ts":31},
    {"ph":"e","cat":"io","name":"own","id":"0x8","pid":1,"tid":1,"ts":20},
    {"ph":"e","cat":"io","name":"own","id":"0x8","pid":2,"tid":1,"ts":31},
    {"ph":"X","name":"last","pid":1,"tid":1,"ts":1000,"dur":1})");
  EXPECT_EQ(trace.report.unread() + trace.report.unfinished, 0u);
  EXPECT_THAT(trace.events,
              testing::IsSupersetOf({HasSubstr("1/async net | id @0 +10000000"),
                                     HasSubstr("1/async net | global @0 +10000000"),
                                     HasSubstr("1/async net | local @0 +10000000"),
                                     HasSubstr("2/async net | local @1000000 +20000000"),
                                     HasSubstr("1/async io | own @0 +10000000"),
                                     HasSubstr("2/async io | own @1000000 +20000000")}));
}

// Regression: the name counted as that of a stream of a GPU.
TEST(TraceFile, AThreadMayBeNamedAsAStream) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":10,"dur":1},
    {"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"stream worker"}})");
  EXPECT_THAT(trace.events, ElementsAre("/host:CPU | stream worker | op @0 +1000000 cat=cpu_op"));
}

TEST(TraceFile, WhatKinetoSaysOfItselfIsNotRecorded) {
  constexpr char kItself[] = R"json(
    {"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"x","ts":1,"dur":9},
    {"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"","ts":10})json";
  EXPECT_EQ(ConvertEvents(kItself).report.recorded, 0u);
  constexpr char kOperator[] =
      R"json(,{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":2,"dur":1})json";
  EXPECT_EQ(ConvertEvents(std::string(kItself) + kOperator).report.recorded, 1u);
}

TEST(TraceFile, CountersAndOtherPhasesAreKept) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"C","name":"memory","pid":1,"ts":1,"args":{"used":10,"free":2.5}},
    {"ph":"C","name":"images","pid":1,"ts":2,"args":{"images":3}},
    {"ph":"N","name":"object","id":"0x5","pid":1,"tid":1,"ts":3},
    {"ph":"X","name":"with clocks","pid":1,"tid":1,"ts":4,"dur":1,"tts":100,"tdur":1,"sf":3})");
  EXPECT_THAT(
      trace.events,
      UnorderedElementsAre("/host:CPU | _counters_ | memory used @0 +0 used=10",
                           "/host:CPU | _counters_ | memory free @0 +0 free=2.500000d",
                           "/host:CPU | _counters_ | images @1000000 +0 images=3",
                           "/host:CPU | thread 1 | object @2000000 +0 ph=N id=0x5",
                           "/host:CPU | thread 1 | with clocks @3000000 +1000000 tts=100 tdur=1 "
                           "sf=3"));
}

TEST(TraceFile, ThreadsOfSeveralProcessesTellTheirProcess) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"M","name":"process_name","pid":10,"args":{"name":"browser"}},
    {"ph":"M","name":"thread_name","pid":10,"tid":1,"args":{"name":"main"}},
    {"ph":"X","name":"a","pid":10,"tid":1,"ts":1,"dur":1},
    {"ph":"X","name":"b","pid":11,"tid":1,"ts":1,"dur":1})");
  EXPECT_THAT(trace.events,
              UnorderedElementsAre("/host:CPU | browser 10/main | a @0 +1000000",
                                   "/host:CPU | process 11/thread 1 | b @0 +1000000"));
  std::set<std::int64_t> ids;
  for (const xplane::Line& line : trace.space.planes.front().lines) ids.insert(line.id);
  EXPECT_THAT(ids, SizeIs(2)) << "threads of two processes may have one number";
}

// As Kineto writes what it tells of its own recording.
TEST(TraceFile, NumbersAndMissingNamesAreTold) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"X","name":"a","pid":2,"tid":0,"ts":1,"dur":1},
    {"ph":"X","name":"a","pid":3,"tid":0,"ts":1,"dur":1},
    {"ph":"X","name":"b","pid":"Spans","tid":"PyTorch Profiler","ts":1,"dur":1},
    {"ph":"i","name":"c","pid":"","tid":"","ts":1})");
  EXPECT_THAT(trace.events,
              UnorderedElementsAre("/host:CPU | process 2/thread 0 | a @0 +1000000",
                                   "/host:CPU | process 3/thread 0 | a @0 +1000000",
                                   "/host:CPU | Spans/PyTorch Profiler | b @0 +1000000",
                                   "/host:CPU | no thread | c @0 +0"));
}

// As XProf and strobe convert write it.
TEST(TraceFile, ProcessesThatAreNamedAsPlanesArePlanes) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"M","name":"process_name","pid":1,"args":{"name":"/device:TPU:0"}},
    {"ph":"M","name":"process_name","pid":701,"args":{"name":"/host:CPU"}},
    {"ph":"M","name":"thread_name","pid":1,"tid":3,"args":{"name":"XLA Ops"}},
    {"ph":"M","name":"thread_sort_index","pid":1,"tid":3,"args":{"sort_index":3}},
    {"ph":"X","name":"fusion","pid":1,"tid":3,"ts":123.45600000000013,"dur":1},
    {"ph":"X","name":"step","pid":701,"tid":1,"ts":124.456,"dur":1},
    {})");
  EXPECT_THAT(trace.events, UnorderedElementsAre("/device:TPU:0 | XLA Ops | fusion @0 +1000000",
                                                 "/host:CPU | thread 1 | step @1000000 +1000000"));
  EXPECT_EQ(trace.report.unread(), 0u) << "the empty object at the end is no event";
}

TEST(TraceFile, TimesAreAbsoluteIfTheFileTells) {
  const auto start = [](const Converted& trace) {
    return xplane::TimeZero(trace.space).value_or(-1);
  };
  constexpr std::string_view kEvent = R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":)";
  EXPECT_EQ(start(Convert(std::string(kEvent) + "5.5}]")), 0) << "since the machine's boot";
  // PyTorch before 2.2.
  EXPECT_EQ(start(Convert(std::string(kEvent) + "1790857026000123.456}]")),
            1'790'857'026'000'123'456);
  EXPECT_EQ(start(Convert("{\"traceEvents\":" + std::string(kEvent) +
                          "5.5}],\"baseTimeNanoseconds\":1790857026000000000}")),
            1'790'857'026'000'005'500)
      << "also when it comes last";
}

TEST(TraceFile, EventsMayComeInAnyOrder) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"X","name":"late","pid":1,"tid":1,"ts":1000,"dur":1},
    {"ph":"X","name":"early","pid":1,"tid":1,"ts":10.0005,"dur":1},
    {"ph":"X","name":"other","pid":1,"tid":2,"ts":500,"dur":1})");
  EXPECT_THAT(trace.events,
              UnorderedElementsAre("/host:CPU | thread 1 | late @990000000 +1000000",
                                   "/host:CPU | thread 1 | early @500 +1000000",
                                   "/host:CPU | thread 2 | other @490000000 +1000000"));
  for (const xplane::Line& line : trace.space.planes.front().lines) EXPECT_GE(line.timestamp_ns, 0);
}

// Regression: all times counted from the first one, and every other event was too far away from it.
TEST(TraceFile, AnImpossibleTimeOfTheFirstEventCostsNoOtherEvent) {
  const auto event = [](std::string_view name, std::string_view ts) {
    return StrCat(R"({"ph":"X","name":")", name, R"(","pid":1,"tid":1,"ts":)", ts, R"(,"dur":1},)");
  };
  const std::string zero = event("zero", "0"), far = event("far", "999999999999999999");
  const std::string two = event("a", "1767225600000000.5") + event("b", "1767225600000020");
  const std::string last = event("c", "1767225600000030");
  // The last file has more events than are kept to judge by.
  std::string many = zero + two + last;
  for (int i = 0; i < 200; ++i) many += event("more", "1767225600000030");
  for (std::string events : {zero + two + last, zero + far + two + last, many}) {
    events.pop_back();
    const Converted trace = ConvertEvents(events);
    EXPECT_THAT(trace.events,
                testing::IsSupersetOf({"/host:CPU | thread 1 | a @0 +1000000",
                                       "/host:CPU | thread 1 | b @19500000 +1000000",
                                       "/host:CPU | thread 1 | c @29500000 +1000000"}));
    EXPECT_THAT(trace.space.warnings, ElementsAre(HasSubstr("no time, or an impossible one")));
    EXPECT_EQ(xplane::TimeZero(trace.space).value_or(-1), 1'767'225'600'000'000'500);
  }
}

TEST(TraceFile, ArrowsBelongToTheEventAroundTheirEnds) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":9},
    {"ph":"s","name":"arrow","cat":"c","id":3,"pid":1,"tid":1,"ts":5},
    {"ph":"X","name":"b","pid":1,"tid":2,"ts":20,"dur":1,"bind_id":"0x1f","flow_in":true},
    {"ph":"f","name":"arrow","cat":"c","id":3,"pid":1,"tid":2,"ts":20})");
  EXPECT_THAT(trace.events,
              UnorderedElementsAre(
                  HasSubstr("/host:CPU | thread 1 | a @0 +9000000 flow="),
                  AllOf(HasSubstr("/host:CPU | thread 2 | b @19000000 +1000000 bind_id=0x1f flow="),
                        testing::ContainsRegex("flow=.* flow="))));
  EXPECT_EQ(trace.report.flows, 3u);
}

TEST(TraceFile, WhatCannotBeReadIsCountedAndTold) {
  const Converted trace = ConvertEvents(
      "{\"ph\":\"X\",\"name\":\"good\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1},"
      "{\"ph\":\"X\",\"name\":\"no colon\" 1},"
      "{\"ph\":\"X\",\"name\":\"no time\",\"pid\":1,\"tid\":1},"
      "{\"ph\":\"X\",\"name\":\"when\",\"pid\":1,\"tid\":1,\"ts\":1e300},"
      "{\"name\":\"what\",\"ts\":1},"
      "{\"ph\":\"X\",\"name\":\"backwards\",\"pid\":1,\"tid\":1,\"ts\":2,\"dur\":-5},"
      "{\"ph\":\"X\",\"name\":\"bell \x07 \xff\",\"pid\":1,\"tid\":1,\"ts\":3,\"dur\":1},"
      "{\"ph\":\"X\",\"name\":\"half \\ud83d\",\"pid\":1,\"tid\":1,\"ts\":4,\"dur\":1},"
      "{\"ph\":\"X\",\"name\":\"escaped \\u00e9\\n\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":1}");
  ASSERT_TRUE(trace.status.ok()) << trace.status;
  EXPECT_THAT(trace.events,
              UnorderedElementsAre("/host:CPU | thread 1 | good @0 +1000000",
                                   "/host:CPU | thread 1 | backwards @1000000 +0 dur=-5",
                                   "/host:CPU | thread 1 | bell   ? @2000000 +1000000",
                                   "/host:CPU | thread 1 | half \\ud83d @3000000 +1000000",
                                   "/host:CPU | thread 1 | escaped \u00e9\n @4000000 +1000000"));
  EXPECT_EQ(trace.report.malformed, 1u);
  EXPECT_EQ(trace.report.bad_time, 2u);
  EXPECT_EQ(trace.report.no_phase, 1u);
  EXPECT_EQ(trace.report.negative, 1u);
  EXPECT_EQ(trace.report.repaired, 2u);
  EXPECT_THAT(
      trace.space.warnings,
      UnorderedElementsAre(HasSubstr("1 event could not be read: malformed"),
                           HasSubstr("2 events could not be read: no time"),
                           HasSubstr("1 object could not be read"),
                           HasSubstr("1 event had a negative"), HasSubstr("2 events had bytes")));
}

TEST(TraceFile, OddValuesAreKept) {
  const Converted trace = ConvertEvents(
      R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"big":18446744073709551615,)"
      R"("bigger":98765432109876543210987,"double":1e3,"nan":NaN,"inf":-Infinity,"null":null,)"
      R"("same":1,"same":2,"":"no name","nested":{"a":[{"b":"]}"}]}}},)"
      R"({"ph":"X","name":"b","name":"c","pid":1,"tid":1,"ts":1,"ts":2,"args":"none"})");
  EXPECT_THAT(trace.events,
              UnorderedElementsAre(
                  "/host:CPU | thread 1 | a @0 +1000000 big=18446744073709551615u "
                  "bigger=98765432109876543210987 double=1000.000000d nan=NaN inf=-Infinity "
                  "null=null same=1 same=2 =no name nested={\"a\": [{\"b\": \"]}\"}]}",
                  "/host:CPU | thread 1 | c @1000000 +0 args=none"))
      << "of two members with one name the last one counts, as in JavaScript";
}

TEST(TraceFile, WhatIsNoTraceIsRefused) {
  for (const std::string_view file :
       {"", "   ", "\x0a\x05hello", "<html></html>", "{}", "{\"a\":1}", "{\"traceEvents\":{}}",
        "\x1f\x8b", "\"text\"", "1"})
    EXPECT_TRUE(absl::IsDataLoss(Convert(file).status)) << file;
  EXPECT_TRUE(Convert("[]").status.ok());
  EXPECT_TRUE(Convert("{\"traceEvents\":[]}").status.ok());
}

TEST(TraceFile, DeepNestingIsText) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "[";
  for (int i = 0; i < 100'000; ++i) deep += "]";
  const Converted trace = ConvertEvents(
      "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"args\":{\"deep\":" + deep +
      "}},{\"ph\":\"X\",\"name\":\"b\",\"pid\":1,\"tid\":1,\"ts\":2}," + deep);
  EXPECT_THAT(trace.events, UnorderedElementsAre("/host:CPU | thread 1 | a @0 +0 deep=" + deep,
                                                 "/host:CPU | thread 1 | b @1000000 +0"));
}

TEST(TraceFile, ThreadsAndProcessesWithoutNumberShareLines) {
  std::string events;
  for (int i = 0; i < 20'000; ++i)
    events += "{\"ph\":\"X\",\"name\":\"e\",\"pid\":" + std::to_string(i % 3000) +
              ",\"tid\":" + std::to_string(i) + ",\"ts\":" + std::to_string(i) + "},";
  const Converted trace = ConvertEvents(events);
  EXPECT_THAT(trace.events, SizeIs(20'000));
  EXPECT_THAT(trace.events,
              Contains(AllOf(HasSubstr("others/others"), HasSubstr("pid=2999 tid=2999"))));
  EXPECT_LE(trace.space.Find("/host:CPU")->lines.size(), Lines::kMaxLines + 2 * Lines::kMaxGroups);
}

// Other white space and another order of members and of events change nothing.
TEST(TraceFile, SaysTheSameInAnyWhiteSpaceAndOrder) {
  for (const std::string_view file : {kKineto, kApart}) {
    const OrderedJson json = OrderedJson::parse(file);
    const Said said = SaidBy(Convert(file));
    EXPECT_FALSE(said.events.empty());
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      OtherWriter writer(seed);
      OrderedJson other = json;
      // Half of them keep the order, so that a failure tells which of both it is about.
      if (seed % 2 != 0) other["traceEvents"] = writer.Shuffled(json["traceEvents"]);
      const std::string text = writer.Write(other);
      const Said again = SaidBy(Convert(text, seed % 3 == 0 ? 61 : 1 << 20));
      EXPECT_EQ(again.events, said.events) << seed << text;
      EXPECT_EQ(again.arrows, said.arrows) << seed;
      EXPECT_EQ(again.environment, said.environment) << seed;
      EXPECT_EQ(again.counts, said.counts) << seed;
    }
  }
}

TEST(TraceFile, ListsAreReadInAnyWhiteSpace) {
  const auto kernel = [](std::string_view grid, std::string_view block) {
    return StrCat(
        R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":100,"dur":50,"args":{)",
        R"("device":0,"stream":7,"registers per thread":80,"shared memory":6400,"grid":)", grid,
        ",\"block\":", block, "}}");
  };
  constexpr std::string_view kDetails =
      "kernel_details=regs:80 static_shared:6400 dynamic_shared:0 grid:2,4,64 block:8,32,1";
  for (const std::string_view grid :
       {"[2,4,64]", "[2, 4, 64]", "[\n  2,\n  4,\n  64\n]", "[\t2 ,4\r\n,64 ]", "\"[2, 4, 64]\"",
        "\"[2,4,\\n 64]\"", "[2.0, 4.0, 64.0]"}) {
    for (const std::string_view block : {"[8, 32, 1]", "[8, 32, 1]\n", "[8,32,1]\r\n\t"})
      EXPECT_THAT(ConvertEvents(kernel(grid, block)).events, ElementsAre(HasSubstr(kDetails)))
          << grid << block;
  }
  for (const std::string_view grid :
       {"[2, 4]", "[2, 4, 64, 1]", "[2, 4, -1]", "[2, 4, 1.5]", "2", "\"\""})
    EXPECT_THAT(ConvertEvents(kernel(grid, "[8, 32, 1]")).events,
                ElementsAre(Not(HasSubstr("kernel_details"))))
        << grid;
  // PyTorch 1.8 names the category otherwise.
  for (const std::string_view category : {"cpu_op", "Operator"}) {
    const Converted trace = ConvertEvents(
        StrCat(R"({"ph":"X","cat":")", category,
               R"(","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Input Dims":[
          [ 8,16 ],
          [ 16,32 ]
        ],"text":"[ 1,2 ]","in":["a , b","[ ]"]
        }})"));
    EXPECT_THAT(
        trace.events,
        ElementsAre(AllOf(HasSubstr("flops=8192u"), HasSubstr("Input Dims=[[8, 16], [16, 32]]"),
                          HasSubstr("text=[ 1,2 ]"), HasSubstr(R"(in=["a , b", "[ ]"])"))));
  }
}

// The file of a real report: the third of five events lacks a quote, and all are on one line.
TEST(TraceFile, ALostQuoteCostsOneEvent) {
  const Converted trace = Convert(
      R"([{"name": "add", "ph": "X", "ts": 101.5, "dur": 134.5, "tid": 1, "pid": "CPU functions", "args": {}}, )"
      R"({"name": "add", "ph": "s", "ts": 101.5, "tid": 1, "pid": "CPU functions", "id": 0, "cat": "cpu_to_cuda", "args": {}}, )"
      R"({"name": "add", "ph": "f", "ts": 102.9, tid": 0, "pid": "CUDA functions", "id": 0, "cat": "cpu_to_cuda", "args": {}}, )"
      R"({"name": "add", "ph": "X", "ts": 102.9, "dur": 134.1, "tid": 0, "pid": "CUDA functions", "args": {}}, )"
      R"({"name": "mul", "ph": "X", "ts": 300, "dur": 5, "tid": 0, "pid": "CUDA functions", "args": {}}])");
  EXPECT_EQ(trace.report.events, 4u);
  EXPECT_THAT(trace.events, SizeIs(3));
  EXPECT_FALSE(trace.report.cut);
  EXPECT_THAT(trace.space.warnings,
              ElementsAre("1 event could not be read: malformed JSON, 118 bytes from byte 220 on"));
}

TEST(TraceFile, DamageCostsOnlyTheDamagedEvents) {
  constexpr int kEvents = 12;
  const std::vector<std::set<int>> places = {{0}, {5}, {kEvents - 1}, {3, 7}, {3, 4}, {0, 1, 11}};
  for (const DamageKind& kind : kKinds) {
    for (const std::set<int>& damaged : places) {
      for (const std::string_view separator : {", ", ",\n", ",", " ,\r\n\t"}) {
        for (const bool bare : {false, true}) {
          std::string file = bare ? "[" : R"({"deviceProperties": [{"id": 0}], "traceEvents": [)";
          std::size_t first = 0;
          std::set<int> whole;
          for (int i = 0; i < kEvents; ++i) {
            if (i == *damaged.begin()) first = file.size();
            const bool broken = damaged.contains(i);
            if (!broken) whole.insert(i);
            file += broken ? kind.apply(EventNumber(i)) : EventNumber(i);
            if (i + 1 < kEvents) file += separator;
          }
          file +=
              bare ? "]" : R"(], "traceName": "t", "baseTimeNanoseconds": 1790857026000000000})";
          const std::string what =
              StrCat(kind.name, "; ", damaged.size(), " at ", *damaged.begin());
          const Converted trace = Convert(file);
          EXPECT_EQ(NumbersOf(trace), whole) << what << file;
          EXPECT_EQ(trace.report.malformed, damaged.size()) << what;
          EXPECT_EQ(trace.report.malformed_at, first) << what;
          EXPECT_LT(trace.report.malformed_bytes, 150 * damaged.size()) << what;
          EXPECT_FALSE(trace.report.cut) << what;
          if (!bare) {
            EXPECT_EQ(xplane::TimeZero(trace.space).value_or(-1) / 1'000'000'000, 1790857026)
                << what;
          }
          EXPECT_EQ(Convert(file, 7).bytes, trace.bytes) << what;
        }
      }
    }
  }
}

// What is odd without hiding anything is repaired.
TEST(TraceFile, OddBytesCostNoEvent) {
  for (const auto& [from, to] :
       std::vector<std::pair<std::string_view, std::string_view>>{{"\"op", "\"\\q op"},
                                                                  {"\"op", "\"\x01\top"},
                                                                  {"\"op", "\"\xff op"},
                                                                  {"]}}", "],}}"},
                                                                  {"}]", "},]"},
                                                                  {"}}", "},}"},
                                                                  {"2}", "2,\n}"},
                                                                  {"[1,", "[NaN,"},
                                                                  {"[1,", "[-inf,"}}) {
    const Converted trace = ConvertEvents(
        StrCat(EventNumber(4), ",", Replaced(EventNumber(5), from, to), ",", EventNumber(6)));
    EXPECT_THAT(trace.events, SizeIs(3)) << to;
    EXPECT_EQ(trace.report.malformed, 0u) << to;
  }
}

TEST(TraceFile, LostTimesSpoilNothing) {
  const auto op = [](std::string_view name, std::string_view ts) {
    return StrCat(R"({"ph":"X","cat":"cpu_op","name":")", name, R"(","pid":1,"tid":1,"ts":)", ts,
                  R"(,"dur":500},)");
  };
  // Since the boot, for 4 and 60 days and half a year, and Unix times.
  for (const std::int64_t begin : {5'000'000'000, 345'600'000'000, 5'184'000'000'000,
                                   15'552'000'000'000, 1'767'225'600'000'000}) {
    for (const std::string_view lost : {"0", "0.000", "-1", "\"0\"", "-0.001"}) {
      for (const int number : {1, 30, 300, 12'000}) {
        std::string real, zeros;
        for (int step = 0; step < 4; ++step)
          real += StrCat(R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#)", step,
                         R"(","pid":1,"tid":1,"ts":)", begin + step * 10'000, R"(,"dur":9900},)");
        for (int i = 0; i < 40; ++i) real += op("real", std::to_string(begin + i * 1000));
        for (int i = 0; i < number; ++i) zeros += op("lost", lost);
        if (number == 12'000 && lost != "0") continue;  // More than are kept to judge by.
        for (std::string events : {zeros + real, real + zeros}) {
          events.pop_back();
          const Converted trace =
              Convert(StrCat(R"({"schemaVersion":1,"traceEvents":[)", events, "]}"));
          const std::string what = StrCat(begin, " ", lost, " ", number);
          EXPECT_THAT(trace.space.warnings,
                      ElementsAre(StrCat(number, number == 1 ? " event" : " events",
                                         " could not be read: no time, or an impossible one")))
              << what;
          EXPECT_THAT(trace.events, SizeIs(44)) << what;
          EXPECT_EQ(trace.report.events, 44u);
          EXPECT_EQ(trace.report.spans, 44u);
          EXPECT_THAT(trace.events, Contains(HasSubstr(" @39000000000 +500000000"))) << what;
          EXPECT_EQ(analysis::FindSteps(trace.space)->size(), 4u) << what;
          for (const xplane::Line& line : trace.space.planes.front().lines)
            EXPECT_EQ(line.timestamp_ns, 0) << what;
        }
      }
    }
  }
}

TEST(TraceFile, GarbageAmongTimesSpoilsNothing) {
  std::string events;
  for (int i = 0; i < 40; ++i) events += StrCat(EventNumber(i), ",");
  const auto odd = [&](std::string_view event) { return ConvertEvents(StrCat(events, event)); };
  for (const std::string_view ts : {"1e12", "999999999999", "4e12", "-300000000000", "9e17"}) {
    for (const std::string_view phase : {"X", "B", "E", "i", "b", "e", "C"}) {
      const Converted trace = odd(StrCat(R"({"ph":")", phase,
                                         R"(","name":"far","cat":"c","id":1,"pid":1,"tid":1,"ts":)",
                                         ts, R"(,"dur":1,"args":{"a":1}})"));
      EXPECT_THAT(trace.space.warnings,
                  ElementsAre(HasSubstr("1 event could not be read: no time")))
          << ts << phase;
      EXPECT_EQ(NumbersOf(trace).size(), 40u);
      EXPECT_THAT(trace.events, SizeIs(40));
    }
  }
  // A length that cannot be meant.
  const Converted longest =
      odd(R"({"ph":"X","name":"long","pid":1,"tid":1,"ts":1100,"dur":1e12,"args":{"a":1}})");
  EXPECT_THAT(longest.events, Contains("/host:CPU | thread 1 | long @100000000 +0 a=1"));
  EXPECT_THAT(longest.space.warnings,
              ElementsAre(HasSubstr("1 event had a negative or unreadable")));
  // 0 is a time like others in most files.
  EXPECT_THAT(odd(R"({"ph":"X","name":"zero","pid":1,"tid":1,"ts":0,"dur":1})").space.warnings,
              IsEmpty());
}

TEST(TraceFile, AsynchronousEventsEndByTheirName) {
  const Converted trace = ConvertEvents(R"(
    {"name": "parent", "cat": "p", "ph": "b", "ts": 0, "pid": 1, "tid": 1, "id": "1"},
    {"name": "first", "cat": "p", "ph": "b", "ts": 10, "pid": 1, "tid": 1, "id": "1"},
    {"name": "second", "cat": "p", "ph": "b", "ts": 20, "pid": 1, "tid": 1, "id": "1"},
    {"name": "first", "cat": "p", "ph": "e", "ts": 40, "pid": 1, "tid": 1, "id": "1"},
    {"name": "second", "cat": "p", "ph": "e", "ts": 90, "pid": 1, "tid": 1, "id": "1"},
    {"name": "parent", "cat": "p", "ph": "e", "ts": 100, "pid": 1, "tid": 1, "id": "1"},
    {"name": "other", "cat": "q", "ph": "S", "ts": 110, "pid": 1, "tid": 1, "id": "1"},
    {"cat": "q", "ph": "F", "ts": 115, "pid": 1, "tid": 1, "id": "1"},
    {"name": "unknown", "cat": "q", "ph": "b", "ts": 120, "pid": 1, "tid": 1, "id": "1"},
    {"name": "nobody", "cat": "q", "ph": "e", "ts": 130, "pid": 1, "tid": 1, "id": "1"})");
  EXPECT_THAT(
      trace.events,
      UnorderedElementsAre(
          HasSubstr("| parent @0 +100000000"), HasSubstr("| first @10000000 +30000000"),
          HasSubstr("| second @20000000 +70000000"), HasSubstr("| other @110000000 +5000000"),
          HasSubstr("| unknown @120000000 +10000000 cat=q id=1 tid=1 finished=false")));
  EXPECT_EQ(trace.report.unmatched_ends, 1u);
}

TEST(TraceFile, BeginningsAndEndsAreSortedByTime) {
  const Converted trace = ConvertEvents(R"(
    {"ph":"E","pid":1,"tid":1,"ts":15,"args":{"b":2}},
    {"ph":"E","name":"outer","pid":1,"tid":1,"ts":20},
    {"ph":"B","name":"inner","pid":1,"tid":1,"ts":12},
    {"ph":"B","name":"next","pid":1,"tid":1,"ts":20},
    {"ph":"B","name":"outer","pid":1,"tid":1,"ts":10},
    {"ph":"E","name":"next","pid":1,"tid":1,"ts":30})");
  EXPECT_THAT(trace.events,
              UnorderedElementsAre("/host:CPU | thread 1 | inner @2000000 +3000000 b=2",
                                   "/host:CPU | thread 1 | outer @0 +10000000",
                                   "/host:CPU | thread 1 | next @10000000 +10000000"));
  EXPECT_THAT(trace.space.warnings, IsEmpty());
}

// Ends without a beginning are not in the result, and beginnings without an end take more memory
// than their place in it.
TEST(TraceFile, BeginningsAndEndsTakeABoundedAmountOfMemory) {
  constexpr int kMany = 300'000;
  std::string events;
  for (int i = 0; i < kMany; ++i)
    events += StrCat(R"({"ph":"B","name":"a","pid":1,"tid":1,"ts":)", 4 * i + 1,
                     R"(},{"ph":"E","pid":1,"tid":1,"ts":)", 4 * i + 3,
                     R"(},{"ph":"E","pid":1,"tid":2,"ts":)", 4 * i, "},");
  for (int i = 0; i < kMany; ++i)
    events += StrCat(R"({"ph":"B","name":"b","pid":1,"tid":3,"ts":)", i, "},");
  events.pop_back();
  ReadReport report;
  const std::string file = StrCat(R"({"traceEvents":[)", events, "]}");
  ASSERT_TRUE(ReadTraceFile(Pieces(file, 1 << 20), report).ok());
  EXPECT_EQ(report.spans, 2u * kMany);
  EXPECT_EQ(report.unmatched_ends, std::uint64_t{kMany});
  EXPECT_EQ(report.unfinished, std::uint64_t{kMany});
}

// Regression: each repetition took room, and after 30,000 nothing was kept any more.
TEST(TraceFile, RepeatedMetadataTakesNoRoom) {
  std::string events;
  for (int i = 0; i < 60'000; ++i)
    events +=
        StrCat(R"({"ph":"M","name":"process_name","pid":1,"args":{"name":"p"}},)",
               R"({"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":")",
               i % 2 == 0 ? "a" : "a longer name", R"("}},)",
               R"({"ph":"M","name":"thread_sort_index","pid":1,"tid":1,"args":{"sort_index":3}},)",
               R"({"ph":"M","name":"process_labels","pid":1,"args":{"labels":"CPU"}},)");
  const Converted trace = ConvertEvents(
      StrCat(events, R"({"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"last"}},)",
             R"({"ph":"X","name":"x","pid":1,"tid":2,"ts":1,"dur":1})"));
  EXPECT_THAT(trace.events, ElementsAre("/host:CPU | last | x @0 +1000000"));
  EXPECT_THAT(trace.space.warnings, IsEmpty());
  EXPECT_EQ(trace.report.cut_values, 0u);
}

TEST(TraceFile, TheWallClockIsFoundWhereProgramsWriteIt) {
  const auto start = [](std::string_view members, std::string_view ts = "5.5") {
    return xplane::TimeZero(
               Convert(StrCat(R"({"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":)", ts,
                              "}],", members, "}"))
                   .space)
        .value_or(-1);
  };
  constexpr std::int64_t kTime = 1'790'857'026'000'005'500;
  EXPECT_EQ(
      start(
          R"("viztracer_metadata":{"version":"1.0","overflow":false,"baseTimeNanoseconds":1790857026000000000})"),
      kTime);
  EXPECT_EQ(start(R"("viztracer_metadata":{
      "baseTimeNanoseconds" : "1790857026000000000"})"),
            kTime);
  EXPECT_EQ(start(R"("beginningOfTime":1790857026000000)"), kTime) << "Clang";
  EXPECT_EQ(start(R"("otherData":{"bazel_version":"7","profile_start_ts":1790857026000})"), kTime);
  EXPECT_EQ(
      start(R"("metadata":{"clock-domain":"LINUX","clock-offset-since-epoch":"1790857026000000"})"),
      kTime);
  for (const std::string_view nothing :
       {R"("metadata":{"clock-offset-since-epoch":"0"})", R"("metadata":[1790857026000000])",
        R"("beginningOfTime":12)", R"("otherData":{"profile_start_ts":9223372036854775807})",
        R"("otherData":{"a":{"profile_start_ts":1790857026000}})"})
    EXPECT_EQ(start(nothing), 0) << nothing;
  EXPECT_EQ(start(R"("beginningOfTime":1790857026000000)", "1790857026000000"),
            1'790'857'026'000'000'000)
      << "the events tell the time themselves";
}

TEST(TraceFile, ErrorsOfTheSourceAreReturned) {
  ReadReport report;
  EXPECT_TRUE(absl::IsUnavailable(
      ReadTraceFile([](std::span<char>) { return absl::UnavailableError("gone"); }, report)
          .status()));
}

}  // namespace strobe::kineto
