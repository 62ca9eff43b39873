#include "collector/trace/convert/perfetto_trace.h"

#include <gmock/gmock.h>

#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/lanes.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/strings.h"
#include "tests/unit/collector/colliding_names.h"
#include "tests/unit/collector/kind_plane.h"

namespace strobe::convert {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using wire::Reader;

// An event, as Perfetto reads it.
struct Shown {
  std::string track{};  // Its name.
  std::uint64_t at_ns = 0, type = 0;
  std::optional<double> value{};
  std::vector<std::uint64_t> flows{}, ending_flows{};
};

// The last field of that number in a message.
std::string_view BytesOf(std::string_view message, std::uint32_t field) {
  std::string_view bytes;
  for (Reader reader(message); reader.Next();) {
    if (reader.field() == field) bytes = reader.bytes();
  }
  return bytes;
}
std::uint64_t NumberOf(std::string_view message, std::uint32_t field) {
  std::uint64_t number = 0;
  for (Reader reader(message); reader.Next();) {
    if (reader.field() == field) number = reader.value();
  }
  return number;
}

// Tells when packets are, as Perfetto does: a sequence may have a clock of its own, whose times are
// differences from the one before. Field numbers are those of Perfetto's protos.
class PacketClocks {
 public:
  std::uint64_t TimeOf(std::string_view packet) {
    const std::uint64_t sequence = NumberOf(packet, 10);
    for (Reader clocks(BytesOf(packet, 6)); clocks.Next();) {
      if (NumberOf(clocks.bytes(), 1) != 64) continue;
      EXPECT_EQ(NumberOf(clocks.bytes(), 3), 1u) << "it is incremental";
      own_[sequence] = NumberOf(clocks.bytes(), 2);
    }
    if (const std::string_view defaults = BytesOf(packet, 59); !defaults.empty())
      clock_[sequence] = NumberOf(defaults, 58);
    const std::uint64_t given = NumberOf(packet, 58), time = NumberOf(packet, 8);
    const std::uint64_t clock = given != 0 ? given : clock_[sequence];
    EXPECT_TRUE(BytesOf(packet, 11).empty() || clock == 6 || own_.contains(sequence));
    return clock == 64 ? own_[sequence] += time : time;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> clock_, own_;
};

// Reads the packets. Field numbers are those of Perfetto's protos.
std::vector<Shown> Shows(const std::vector<WorkerTrace>& traces) {
  std::string written;
  EXPECT_TRUE(WritePerfettoTrace(traces, [&](std::string_view piece) {
                written += piece;
                return absl::OkStatus();
              }).ok());
  std::map<std::uint64_t, std::string> tracks, of_sequence;
  std::vector<Shown> all;
  PacketClocks clocks;
  for (Reader packets(written); packets.Next();) {
    const std::string_view packet = packets.bytes();
    const std::uint64_t sequence = NumberOf(packet, 10), at_ns = clocks.TimeOf(packet);
    if (const std::string_view track = BytesOf(packet, 60); !track.empty()) {
      const std::string_view thread = BytesOf(track, 4);
      tracks[NumberOf(track, 1)] = thread.empty() ? BytesOf(track, 2) : BytesOf(thread, 5);
    }
    if (const std::string_view defaults = BytesOf(packet, 59); !defaults.empty())
      of_sequence[sequence] = tracks[NumberOf(BytesOf(defaults, 11), 11)];
    const std::string_view event = BytesOf(packet, 11);
    if (event.empty()) continue;
    Shown& shown = all.emplace_back(Shown{.track = of_sequence[sequence], .at_ns = at_ns});
    for (Reader reader(event); reader.Next();) {
      if (reader.field() == 9) shown.type = reader.value();
      if (reader.field() == 44) shown.value = std::bit_cast<double>(reader.value());
      if (reader.field() == 47) shown.flows.push_back(reader.value());
      if (reader.field() == 48) shown.ending_flows.push_back(reader.value());
    }
  }
  return all;
}

std::string Written(const std::string& trace) {
  std::string written;
  EXPECT_TRUE(
      WritePerfettoTrace({{{"w", *xplane::Space::Read(trace), 0}}}, [&](std::string_view piece) {
        written += piece;
        return absl::OkStatus();
      }).ok());
  return written;
}

// Resolves what packets refer to, as Perfetto does: from the packets before, of their sequence.
std::vector<std::map<std::string, std::string>> ArgumentsOf(const std::string& written) {
  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>, std::string> interned;
  std::vector<std::map<std::string, std::string>> all;
  for (Reader packets(written); packets.Next();) {
    const std::string_view packet = packets.bytes();
    const std::uint64_t sequence = NumberOf(packet, 10);
    for (Reader entries(BytesOf(packet, 12)); entries.Next();) {
      const std::tuple key(sequence, entries.field(), NumberOf(entries.bytes(), 1));
      EXPECT_TRUE(interned.emplace(key, BytesOf(entries.bytes(), 2)).second) << "written twice";
    }
    if (NumberOf(BytesOf(packet, 11), 9) != 1) continue;  // Not the begin of an event.
    std::map<std::string, std::string>& arguments = all.emplace_back();
    for (Reader fields(BytesOf(packet, 11)); fields.Next();) {
      if (fields.field() == 10) arguments[""] = interned.at({sequence, 2, fields.value()});
      if (fields.field() != 4) continue;
      const std::string_view argument = fields.bytes();
      std::string& value = arguments[interned.at({sequence, 3, NumberOf(argument, 1)})];
      EXPECT_EQ(value, "") << "two arguments of one name";
      for (Reader values(argument); values.Next();) {
        if (values.field() == 3 || values.field() == 4) value = StrCat(values.value());
        if (values.field() == 6) value = values.bytes();
        if (values.field() == 17) value = interned.at({sequence, 29, values.value()});
      }
    }
  }
  return all;
}

TEST(PerfettoTrace, IdsThatAreChosenToCollideAreWritten) {
  const std::string bytes = CollidingNames();
  EXPECT_EQ(Shows({{"w", *xplane::Space::Read(bytes), 0}}).size(),
            static_cast<std::size_t>(2 * kCollidingIds))
      << "a begin and an end of each event";
}

// The format has no place for what all events of a name share.
TEST(PerfettoTrace, EveryEventTellsWhatItsKindTells) {
  const auto all = ArgumentsOf(Written(PlaneWithKinds()));
  using Arguments = std::map<std::string, std::string>;
  const Arguments first = {{"", "fusion.1"},
                           {"long_name", "%fusion.1 = f32[8] fusion()"},
                           {"hlo_category", "loop fusion"},
                           {"flops", "1152921504606846976"},
                           {"bytes_accessed", "5"}};
  Arguments second = {{"", "fusion.2"},
                      {"long_name", "%fusion.2 = f32[8] fusion(), replica_groups={{0,1}}"},
                      {"hlo_category", "all-reduce fusion"},
                      {"bytes_accessed", "9"}};
  Arguments last = second;
  last["bytes_accessed"] = "7";  // The event's own.
  EXPECT_THAT(all, ElementsAre(first, second, first, last));
}

// Traces from JSON keep texts beside the names of stats, many per lane.
TEST(PerfettoTrace, LanesWriteOnlyTheNamesThatTheyUse) {
  xplane::PlaneBuilder host("/host:CPU");
  constexpr std::int64_t kLines = 50, kEvents = 100;
  for (std::int64_t line = 0; line < kLines; ++line) {
    host.BeginLine(line, StrCat("thread ", line), 0);
    for (std::int64_t i = 0; i < kEvents; ++i) {
      host.AddEvent(host.EventId("aten::add"), i * 2000, 1000);
      host.AddEventStat(host.StatId("Input Dims"), xplane::Ref{StrCat("[[", line, ", ", i, "]]")});
    }
  }
  const std::string trace = host.Encode(), written = Written(trace);
  EXPECT_LT(written.size(), 2 * trace.size());
  const auto all = ArgumentsOf(written);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kLines * kEvents));
  EXPECT_EQ(all.back().at("Input Dims"), "[[49, 99]]");
}

TEST(PerfettoTrace, EveryCounterHasATrackOfItsOwn) {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(1, xplane::kCounterLine, 0);
  for (std::int64_t i = 0; i < 2; ++i) {
    gpu.AddEvent(gpu.EventId("Total Allocated"), 1000 * i, 0);
    gpu.AddEventStat(gpu.StatId("tid"), std::string_view("7"));
    gpu.AddEventStat(gpu.StatId("Total Allocated"), 100 + i);
    gpu.AddEventStat(gpu.StatId("Bytes"), std::int64_t{-8});
    gpu.AddEvent(gpu.EventId("Total Reserved"), 1000 * i, 0);
    gpu.AddEventStat(gpu.StatId("Total Reserved"), 200.5);
  }
  gpu.AddEvent(gpu.EventId("no value"), 0, 0);
  gpu.AddEventStat(gpu.StatId("tid"), std::string_view("7"));
  const std::string bytes = gpu.Encode();
  std::map<std::string, std::vector<double>> values;
  for (const Shown& shown : Shows({{"w", *xplane::Space::Read(bytes), 0}})) {
    EXPECT_EQ(shown.type, 4u) << "a counter's value";
    values[shown.track].push_back(shown.value.value_or(-1));
  }
  EXPECT_EQ(values.size(), 2u);
  EXPECT_THAT(values["Total Allocated"], ElementsAre(100, 101));
  EXPECT_THAT(values["Total Reserved"], ElementsAre(200.5, 200.5));
}

TEST(PerfettoTrace, ArrowsOfLaunchesStayWithinTheirWorker) {
  xplane::PlaneBuilder host("/host:CPU"), gpu("/device:GPU:0", 1);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("cudaLaunchKernel"), 0, 1000);
  host.AddEventStat(host.StatId("correlation_id"), std::int64_t{7});
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  gpu.AddEvent(gpu.EventId("kernel"), 5000, 1000);
  gpu.AddEventStat(gpu.StatId("correlation_id"), std::int64_t{7});
  const std::string bytes = host.Encode() + gpu.Encode();
  const std::vector<Shown> all =
      Shows({{"a", *xplane::Space::Read(bytes), 0}, {"b", *xplane::Space::Read(bytes), 0}});
  ASSERT_EQ(all.size(), 8u) << "four begins, each followed by its end";
  for (std::size_t worker = 0; worker < 2; ++worker) {
    const Shown &launch = all[4 * worker], &kernel = all[4 * worker + 2];
    EXPECT_EQ(launch.track, "main");
    EXPECT_EQ(launch.flows.size(), 1u);
    EXPECT_THAT(launch.ending_flows, IsEmpty());
    EXPECT_EQ(kernel.track, "Stream #7(Compute)");
    EXPECT_EQ(kernel.ending_flows, launch.flows);
    EXPECT_THAT(kernel.flows, IsEmpty());
  }
  EXPECT_NE(all[0].flows, all[4].flows);
}

TEST(PerfettoTrace, AnEventInTheMiddleOfAFlowDoesNotEndIt) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "main", 0);
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::int64_t direction = i == 0 ? 2 : i == 1 ? 3 : 1;
    host.AddEvent(host.EventId("event"), 1000 * i, 0);
    host.AddEventStat(host.StatId("flow"), 5 << 2 | direction);
  }
  const std::string bytes = host.Encode();
  const std::vector<Shown> all = Shows({{"w", *xplane::Space::Read(bytes), 0}});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].flows.size(), 1u);
  EXPECT_EQ(all[1].flows, all[0].flows);
  EXPECT_THAT(all[1].ending_flows, IsEmpty());
  EXPECT_THAT(all[2].flows, IsEmpty());
  EXPECT_EQ(all[2].ending_flows, all[0].flows);
}

TEST(PerfettoTrace, TracesMayBeginMonthsApart) {
  constexpr std::int64_t kMonthsNs = 151ll * 24 * 3'600'000'000'000;
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("early"), -500, 0);
  host.AddEvent(host.EventId("event"), 1'500, 2'000);
  const std::string bytes = host.Encode();
  std::vector<std::uint64_t> times;
  for (const Shown& shown : Shows({{"january", *xplane::Space::Read(bytes), 0},
                                   {"june", *xplane::Space::Read(bytes), kMonthsNs}}))
    times.push_back(shown.at_ns);
  constexpr auto kMonths = static_cast<std::uint64_t>(kMonthsNs);
  EXPECT_THAT(times, ElementsAre(0, 1, 3, kMonths - 1, kMonths + 1, kMonths + 3));
}

TEST(PerfettoTrace, EventsThatShareALaneWithoutNestingKeepTheirTimes) {
  constexpr std::int64_t kEvents = xplane::kMaxLanes + 10, kLong = 5000;
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "main", 0);
  std::multiset<std::uint64_t> expected, times;
  for (std::int64_t i = 0; i < kEvents; ++i) {
    host.AddEvent(host.EventId("event"), 1000 * i, 1000 * kLong);
    expected.insert({static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(i + kLong)});
  }
  const std::string bytes = host.Encode();
  for (const Shown& shown : Shows({{"w", *xplane::Space::Read(bytes), 0}}))
    times.insert(shown.at_ns);
  EXPECT_EQ(times, expected);
}

}  // namespace
}  // namespace strobe::convert
