#include "collector/convert/perfetto_trace.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "collector/xplane/flows.h"
#include "collector/xplane/lanes.h"
#include "collector/xplane/names.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::convert {
namespace {

using wire::AppendBytesField;
using wire::AppendDoubleField;
using wire::AppendVarintField;
using xplane::Placed;
using xplane::Plane;
using xplane::Stat;

constexpr std::size_t kPerfettoPieceBytes = 1 << 20;  // Handed to the sink at once.

// Field numbers and values of Perfetto's protos. Written by hand, because only these few are
// needed.
namespace packet {
constexpr std::uint32_t kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInterned = 12,
                        kFlags = 13, kDefaults = 59, kDescriptor = 60;
}
namespace descriptor {
constexpr std::uint32_t kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8;
}
namespace event {
constexpr std::uint32_t kAnnotations = 4, kType = 9, kNameIid = 10, kTrack = 11, kFlowIds = 47,
                        kEndingFlowIds = 48, kDoubleCounter = 44;
constexpr std::uint64_t kBegins = 1, kEnds = 2, kInstant = 3, kCounterValue = 4;
}  // namespace event
namespace annotation {
constexpr std::uint32_t kNameIid = 1, kUint = 3, kInt = 4, kDouble = 5, kString = 6;
}
constexpr std::uint64_t kStateCleared = 1, kStateNeeded = 2;

void AppendFixed64Field(std::uint32_t field, std::uint64_t value, std::string& out) {
  wire::AppendVarint(static_cast<std::uint64_t>(field) << 3 | 1, out);
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof raw);
}

class PerfettoWriter {
 public:
  explicit PerfettoWriter(const Sink& sink) : sink_(sink) { out_.reserve(2 * kPerfettoPieceBytes); }

  absl::Status Write(std::span<const WorkerTrace> traces) {
    for (std::size_t number = 0; number < traces.size(); ++number) {
      const WorkerTrace& trace = traces[number];
      shift_ns_ = trace.shift_ns;
      for (const Plane& plane : trace.space.planes) {
        if (plane.events() == 0) continue;
        ++pid_;
        const std::uint64_t process = ++uuid_;
        std::string about;
        AppendVarintField(1, pid_, about);
        AppendBytesField(
            6, traces.size() == 1 ? std::string(plane.name) : StrCat(trace.worker, " ", plane.name),
            about);
        std::string track;
        AppendVarintField(descriptor::kUuid, process, track);
        AppendBytesField(descriptor::kProcess, about, track);
        Descriptor(track);
        const xplane::FlowReader flows(plane, number);
        for (const xplane::Line& line : plane.lines) {
          RETURN_IF_ERROR(line.name == xplane::kCounterLine ? WriteCounters(plane, line, process)
                                                            : WriteSpans(plane, line, flows));
        }
      }
    }
    return sink_(out_);
  }

 private:
  struct Lane {
    std::uint64_t track = 0;
    std::uint64_t sequence = 0;
    std::vector<std::int64_t> open{};  // When the open slices end, in ps; the innermost is last.
    bool started = false;
  };

  void Packet() { AppendBytesField(1, packet_, out_), packet_.clear(); }

  // Hands a full piece to the sink.
  absl::Status PassOn() {
    if (out_.size() < kPerfettoPieceBytes) return absl::OkStatus();
    const absl::Status status = sink_(out_);
    out_.clear();
    return status;
  }

  void Descriptor(std::string_view track) {
    AppendBytesField(packet::kDescriptor, track, packet_);
    AppendVarintField(packet::kSequence, 1, packet_);
    Packet();
  }

  // The first lane is the thread's own track, so that Perfetto shows a thread; the other lanes are
  // its children.
  Lane NewLane(const xplane::Line& line, std::uint64_t thread) {
    Lane lane{.track = ++uuid_, .sequence = ++sequence_};
    std::string track;
    AppendVarintField(descriptor::kUuid, lane.track, track);
    if (thread == 0) {
      std::string about;
      AppendVarintField(1, pid_, about);
      AppendVarintField(2, ++tid_, about);
      AppendBytesField(5, line.name, about);
      AppendBytesField(descriptor::kThread, about, track);
    } else {
      AppendBytesField(descriptor::kName, line.name, track);
      AppendVarintField(descriptor::kParent, thread, track);
    }
    Descriptor(track);
    return lane;
  }

  Lane NewCounter(std::string_view name, std::uint64_t process) {
    Lane lane{.track = ++uuid_, .sequence = ++sequence_};
    std::string track;
    AppendVarintField(descriptor::kUuid, lane.track, track);
    AppendBytesField(descriptor::kName, name, track);
    AppendVarintField(descriptor::kParent, process, track);
    AppendBytesField(descriptor::kCounter, "", track);
    Descriptor(track);
    StartSequence("", lane);
    return lane;
  }

  // The names that the events of a lane use.
  static std::string Interned(const Plane& plane, const std::vector<Placed>& events,
                              std::uint32_t index) {
    std::string interned;
    const auto intern = [&](std::uint32_t field, std::int64_t id, std::string_view name) {
      std::string entry;
      AppendVarintField(1, static_cast<std::uint64_t>(id) + 1, entry);
      AppendBytesField(2, name, entry);
      AppendBytesField(field, entry, interned);
    };
    std::unordered_set<std::int64_t> used;
    for (const Placed& event : events) {
      if (event.lane == index && used.insert(event.event.name_id).second)
        intern(2, event.event.name_id, plane.NameOf(event.event));
    }
    for (const auto& [id, name] : plane.stat_names) intern(3, id, name);
    return interned;
  }

  // Writes what the packets of a lane refer to: names, and its track as the default.
  void StartSequence(std::string_view interned, Lane& lane) {
    lane.started = true;
    std::string track, defaults;
    AppendVarintField(event::kTrack, lane.track, track);
    AppendBytesField(11, track, defaults);
    AppendVarintField(packet::kSequence, lane.sequence, packet_);
    AppendVarintField(packet::kFlags, kStateCleared, packet_);
    AppendBytesField(packet::kInterned, interned, packet_);
    AppendBytesField(packet::kDefaults, defaults, packet_);
    Packet();
  }

  void Emit(const Lane& lane, std::int64_t at_ps, std::string_view what) {
    // Perfetto's times are unsigned, so that earlier events are shown at zero.
    const std::int64_t at_ns = std::max<std::int64_t>(SharedNanos(at_ps, shift_ns_), 0);
    AppendVarintField(packet::kTimestamp, static_cast<std::uint64_t>(at_ns), packet_);
    AppendVarintField(packet::kSequence, lane.sequence, packet_);
    AppendBytesField(packet::kTrackEvent, what, packet_);
    AppendVarintField(packet::kFlags, kStateNeeded, packet_);
    Packet();
  }

  void CloseUntil(Lane& lane, std::size_t depth) {
    for (; lane.open.size() > depth; lane.open.pop_back()) {
      what_.clear();
      AppendVarintField(event::kType, event::kEnds, what_);
      Emit(lane, lane.open.back(), what_);
    }
  }

  absl::Status WriteSpans(const Plane& plane, const xplane::Line& line,
                          const xplane::FlowReader& flows) {
    ASSIGN_OR_RETURN(const std::vector<Placed> events, xplane::PlaceEvents(line));
    std::vector<Lane> lanes;
    for (const Placed& placed : events) {
      while (lanes.size() <= placed.lane)
        lanes.push_back(NewLane(line, lanes.empty() ? 0 : lanes[0].track));
      Lane& lane = lanes[placed.lane];
      if (!lane.started) StartSequence(Interned(plane, events, placed.lane), lane);
      CloseUntil(lane, placed.depth);
      what_.clear();
      const bool instant = placed.begin_ps == placed.end_ps;
      AppendVarintField(event::kType, instant ? event::kInstant : event::kBegins, what_);
      AppendVarintField(event::kNameIid, static_cast<std::uint64_t>(placed.event.name_id) + 1,
                        what_);
      RETURN_IF_ERROR(AppendStats(plane, placed));
      if (flows.any()) RETURN_IF_ERROR(AppendFlows(flows, placed));
      Emit(lane, placed.begin_ps, what_);
      if (!instant) lane.open.push_back(placed.end_ps);
      RETURN_IF_ERROR(PassOn());
    }
    for (Lane& lane : lanes) CloseUntil(lane, 0);
    return absl::OkStatus();
  }

  // Makes one track for each counter's name. An event's value is its first number.
  absl::Status WriteCounters(const Plane& plane, const xplane::Line& line, std::uint64_t process) {
    ASSIGN_OR_RETURN(const std::vector<Placed> events, xplane::PlaceEvents(line));
    std::unordered_map<std::string_view, Lane> counters;
    for (const Placed& placed : events) {
      std::optional<double> value;
      RETURN_IF_ERROR(ForEachStat(plane, placed.event, [&](const Stat& stat) {
        if (!value) value = stat.Number();
      }));
      if (!value) continue;
      const std::string_view name = plane.NameOf(placed.event);
      const auto [counter, added] = counters.try_emplace(name);
      if (added) counter->second = NewCounter(name, process);
      what_.clear();
      AppendVarintField(event::kType, event::kCounterValue, what_);
      AppendDoubleField(event::kDoubleCounter, *value, what_);
      Emit(counter->second, placed.begin_ps, what_);
      RETURN_IF_ERROR(PassOn());
    }
    return absl::OkStatus();
  }

  absl::Status AppendStats(const Plane& plane, const Placed& placed) {
    return ForEachStat(plane, placed.event, [&](const Stat& stat) {
      annotation_.clear();
      AppendVarintField(annotation::kNameIid, static_cast<std::uint64_t>(stat.name_id) + 1,
                        annotation_);
      if (const auto* signed_value = std::get_if<std::int64_t>(&stat.value))
        AppendVarintField(annotation::kInt, static_cast<std::uint64_t>(*signed_value), annotation_);
      else if (const auto* natural = std::get_if<std::uint64_t>(&stat.value))
        AppendVarintField(annotation::kUint, *natural, annotation_);
      else if (const auto* number = std::get_if<double>(&stat.value))
        AppendDoubleField(annotation::kDouble, *number, annotation_);
      else if (const auto* text = std::get_if<std::string_view>(&stat.value))
        AppendBytesField(annotation::kString, *text, annotation_);
      AppendBytesField(event::kAnnotations, annotation_, what_);
    });
  }

  absl::Status AppendFlows(const xplane::FlowReader& flows, const Placed& placed) {
    outgoing_.clear();
    incoming_.clear();
    RETURN_IF_ERROR(flows.Read(placed.event, [&](std::uint64_t id, bool incoming) {
      (incoming ? incoming_ : outgoing_).push_back(id);
    }));
    for (const std::uint64_t id : outgoing_) AppendFixed64Field(event::kFlowIds, id, what_);
    for (const std::uint64_t id : incoming_) {
      // An event in the middle of a flow does not end it.
      if (std::find(outgoing_.begin(), outgoing_.end(), id) == outgoing_.end())
        AppendFixed64Field(event::kEndingFlowIds, id, what_);
    }
    return absl::OkStatus();
  }

  const Sink& sink_;
  std::string out_, packet_, what_, annotation_;
  std::vector<std::uint64_t> outgoing_, incoming_;  // Flows of the present event.
  std::int64_t shift_ns_ = 0;                       // That of the present trace.
  std::uint64_t pid_ = 0, tid_ = 0, uuid_ = 0, sequence_ = 1;
};

}  // namespace

absl::Status WritePerfettoTrace(std::span<const WorkerTrace> traces, const Sink& sink) {
  return PerfettoWriter(sink).Write(traces);
}

}  // namespace strobe::convert
