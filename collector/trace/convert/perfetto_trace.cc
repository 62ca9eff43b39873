#include "collector/trace/convert/perfetto_trace.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "collector/trace/convert/kind_stats.h"
#include "collector/trace/convert/link_ids.h"
#include "collector/trace/xplane/flows.h"
#include "collector/trace/xplane/lanes.h"
#include "collector/trace/xplane/names.h"
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
constexpr std::uint32_t kClocks = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11,
                        kInterned = 12, kFlags = 13, kDefaults = 59, kDescriptor = 60;
}
// A clock of a sequence whose times are differences from the one before: absolute times take ten
// bytes each.
namespace clock {
constexpr std::uint32_t kId = 1, kTime = 2, kIncremental = 3;
constexpr std::uint32_t kField = 58;    // Names a packet's clock, in the packet or in its defaults.
constexpr std::uint64_t kBootTime = 6;  // That of the file, unless it says otherwise.
constexpr std::uint64_t kOfSequence = 64;  // The first id that means another clock in each one.
}  // namespace clock
namespace defaults {
constexpr std::uint32_t kEvent = 11;
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
constexpr std::uint32_t kNameIid = 1, kUint = 3, kInt = 4, kDouble = 5, kString = 6,
                        kStringIid = 17;
}
namespace interned {
constexpr std::uint32_t kEventNames = 2, kAnnotationNames = 3, kStrings = 29;
}
// Ids of interned names follow those of the plane; 0 is none, and 1 is left for kLongName.
constexpr std::int64_t kLongNameId = -1;
std::uint64_t InternedId(std::int64_t name_id) { return static_cast<std::uint64_t>(name_id) + 2; }
constexpr std::uint64_t kStateCleared = 1, kStateNeeded = 2;

void AppendFixed64Field(std::uint32_t field, std::uint64_t value, std::string& out) {
  wire::AppendVarint(static_cast<std::uint64_t>(field) << 3 | 1, out);
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof raw);
}

// The ids that a lane has written. Memory is taken for those that it uses.
class WrittenIds {
 public:
  // False if it was there.
  bool Insert(std::uint64_t id) {
    if (id >= kFew) return many_.insert(id).second;
    if (few_.size() <= id) few_.resize(id + 1);
    if (few_[id]) return false;
    few_[id] = true;
    return true;
  }

 private:
  static constexpr std::uint64_t kFew = 1 << 14;
  std::vector<bool> few_{};
  absl::flat_hash_set<std::uint64_t> many_{};
};

class PerfettoWriter {
 public:
  explicit PerfettoWriter(const Sink& sink) : sink_(sink) { out_.reserve(2 * kPerfettoPieceBytes); }

  absl::Status Write(std::span<const WorkerTrace> traces) {
    for (std::size_t number = 0; number < traces.size(); ++number) {
      const WorkerTrace& trace = traces[number];
      shift_ns_ = trace.shift_ns;
      ASSIGN_OR_RETURN(links_, LinkIds::Of(trace.space, number));
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
        kinds_.clear();
        texts_ = 0;
        long_name_id_ = plane.StatId(kLongName);
        if (long_name_id_ == 0) long_name_id_ = kLongNameId;
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
    std::int64_t last_ns = 0;  // The time of its last packet.
    WrittenIds event_names{}, stat_names{}, texts{};
  };
  // What all events of a name share.
  struct KindStat {
    std::int64_t name_id = 0;
    std::string annotation{};
    std::uint64_t text_id = 0;  // If its value is a text: by which it is interned; otherwise 0.
    std::string_view text{};
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
    return lane;
  }

  // Adds a text to the next packet, which is the first one to use it.
  void Intern(std::uint32_t field, std::uint64_t id, std::string_view text) {
    entry_.clear();
    AppendVarintField(1, id, entry_);
    AppendBytesField(2, text, entry_);
    AppendBytesField(field, entry_, interned_);
  }
  void InternStatName(const Plane& plane, std::int64_t name_id, Lane& lane) {
    const std::uint64_t id = InternedId(name_id);
    if (!lane.stat_names.Insert(id)) return;
    Intern(interned::kAnnotationNames, id,
           name_id == kLongNameId ? kLongName : plane.NameOf(Stat{.name_id = name_id}));
  }

  const std::vector<KindStat>& KindOf(const Plane& plane, const xplane::Event& event) {
    const auto [found, added] = kinds_.try_emplace(event.name_id);
    std::vector<KindStat>& stats = found->second;
    const auto name = added ? plane.event_names.find(event.name_id) : plane.event_names.end();
    if (name == plane.event_names.end()) return stats;
    ForEachStatOfKind(plane, name->second, long_name_id_, [&](const Stat& stat) {
      KindStat& made = stats.emplace_back(KindStat{.name_id = stat.name_id});
      if (const auto* text = std::get_if<std::string_view>(&stat.value)) {
        made.text_id = ++texts_;
        made.text = *text;
        AppendVarintField(annotation::kNameIid, InternedId(stat.name_id), made.annotation);
        AppendVarintField(annotation::kStringIid, made.text_id, made.annotation);
      } else {
        AppendAnnotation(stat, made.annotation);
      }
    });
    return stats;
  }

  // Perfetto's times are unsigned, so that earlier events are shown at zero.
  std::int64_t TimeOf(std::int64_t at_ps) const {
    return std::max<std::int64_t>(SharedNanos(at_ps, shift_ns_), 0);
  }

  // Writes what the packets of a lane refer to: its track and its clock, as the defaults.
  void StartSequence(Lane& lane, std::int64_t first_ps) {
    lane.started = true;
    lane.last_ns = TimeOf(first_ps);
    std::string track, given, clocks;
    AppendVarintField(event::kTrack, lane.track, track);
    AppendBytesField(defaults::kEvent, track, given);
    AppendVarintField(clock::kField, clock::kOfSequence, given);
    for (const std::uint64_t id : {clock::kBootTime, clock::kOfSequence}) {
      entry_.clear();
      AppendVarintField(clock::kId, id, entry_);
      AppendVarintField(clock::kTime, static_cast<std::uint64_t>(lane.last_ns), entry_);
      if (id == clock::kOfSequence) AppendVarintField(clock::kIncremental, 1, entry_);
      AppendBytesField(1, entry_, clocks);
    }
    AppendBytesField(packet::kClocks, clocks, packet_);
    AppendVarintField(packet::kSequence, lane.sequence, packet_);
    AppendVarintField(packet::kFlags, kStateCleared, packet_);
    AppendBytesField(packet::kDefaults, given, packet_);
    Packet();
  }

  void Emit(Lane& lane, std::int64_t at_ps, std::string_view what) {
    const std::int64_t at_ns = TimeOf(at_ps);
    if (at_ns >= lane.last_ns) {
      AppendVarintField(packet::kTimestamp, static_cast<std::uint64_t>(at_ns - lane.last_ns),
                        packet_);
      lane.last_ns = at_ns;
    } else {
      // Only where events share the last lane although they do not nest.
      AppendVarintField(packet::kTimestamp, static_cast<std::uint64_t>(at_ns), packet_);
      AppendVarintField(clock::kField, clock::kBootTime, packet_);
    }
    AppendVarintField(packet::kSequence, lane.sequence, packet_);
    if (!interned_.empty()) AppendBytesField(packet::kInterned, interned_, packet_);
    interned_.clear();
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
      if (!lane.started) StartSequence(lane, placed.begin_ps);
      CloseUntil(lane, placed.depth);
      what_.clear();
      const bool instant = placed.begin_ps == placed.end_ps;
      AppendVarintField(event::kType, instant ? event::kInstant : event::kBegins, what_);
      const std::uint64_t name = InternedId(placed.event.name_id);
      if (lane.event_names.Insert(name))
        Intern(interned::kEventNames, name, plane.NameOf(placed.event));
      AppendVarintField(event::kNameIid, name, what_);
      RETURN_IF_ERROR(AppendStats(plane, placed, lane));
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
      if (added) {
        counter->second = NewCounter(name, process);
        StartSequence(counter->second, placed.begin_ps);
      }
      what_.clear();
      AppendVarintField(event::kType, event::kCounterValue, what_);
      AppendDoubleField(event::kDoubleCounter, *value, what_);
      Emit(counter->second, placed.begin_ps, what_);
      RETURN_IF_ERROR(PassOn());
    }
    return absl::OkStatus();
  }

  absl::Status AppendStats(const Plane& plane, const Placed& placed, Lane& lane) {
    const std::vector<KindStat>& kind = KindOf(plane, placed.event);
    own_.clear();
    RETURN_IF_ERROR(ForEachStat(plane, placed.event, [&](const Stat& stat) {
      InternStatName(plane, stat.name_id, lane);
      annotation_.clear();
      AppendAnnotation(stat, annotation_);
      AppendBytesField(event::kAnnotations, annotation_, what_);
      if (!kind.empty()) own_.push_back(stat.name_id);
    }));
    for (const KindStat& stat : kind) {
      if (std::ranges::find(own_, stat.name_id) != own_.end()) continue;
      InternStatName(plane, stat.name_id, lane);
      if (stat.text_id != 0 && lane.texts.Insert(stat.text_id))
        Intern(interned::kStrings, stat.text_id, stat.text);
      AppendBytesField(event::kAnnotations, stat.annotation, what_);
    }
    return absl::OkStatus();
  }

  static void AppendAnnotation(const Stat& stat, std::string& out) {
    AppendVarintField(annotation::kNameIid, InternedId(stat.name_id), out);
    if (const auto* signed_value = std::get_if<std::int64_t>(&stat.value))
      AppendVarintField(annotation::kInt, static_cast<std::uint64_t>(*signed_value), out);
    else if (const auto* natural = std::get_if<std::uint64_t>(&stat.value))
      AppendVarintField(annotation::kUint, *natural, out);
    else if (const auto* number = std::get_if<double>(&stat.value))
      AppendDoubleField(annotation::kDouble, *number, out);
    else if (const auto* text = std::get_if<std::string_view>(&stat.value))
      AppendBytesField(annotation::kString, *text, out);
  }

  absl::Status AppendFlows(const xplane::FlowReader& flows, const Placed& placed) {
    outgoing_.clear();
    incoming_.clear();
    RETURN_IF_ERROR(links_.Read(flows, placed.event, [&](std::uint64_t id, bool incoming) {
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
  std::string out_, packet_, what_, annotation_, entry_;
  std::string interned_;  // What the next packet introduces.
  // The kinds of the present plane's events, and how many texts their stats have.
  absl::flat_hash_map<std::int64_t, std::vector<KindStat>> kinds_;
  std::uint64_t texts_ = 0;
  std::int64_t long_name_id_ = 0;
  std::vector<std::int64_t> own_;                   // The present event's own stats, by name.
  std::vector<std::uint64_t> outgoing_, incoming_;  // Flows of the present event.
  // What belongs to the present trace.
  std::int64_t shift_ns_ = 0;
  LinkIds links_{};
  std::uint64_t pid_ = 0, tid_ = 0, uuid_ = 0, sequence_ = 1;
};

}  // namespace

absl::Status WritePerfettoTrace(std::span<const WorkerTrace> traces, const Sink& sink) {
  return PerfettoWriter(sink).Write(traces);
}

}  // namespace strobe::convert
