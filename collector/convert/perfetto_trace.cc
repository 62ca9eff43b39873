#include "collector/convert/perfetto_trace.h"

#include <cstring>
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

constexpr std::size_t kPerfettoPieceBytes = 1 << 20;

// Field numbers of Perfetto's protos.
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
    for (const WorkerTrace& trace : traces) {
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
        for (const xplane::Line& line : plane.lines)
          RETURN_IF_ERROR(WriteLine(plane, line, process, trace.shift_ns * 1000));
      }
    }
    return sink_(out_);
  }

 private:
  struct Lane {
    std::uint64_t track = 0;
    std::uint64_t sequence = 0;
    std::vector<std::int64_t> open{};  // Ends of the slices that are open.
    bool started = false;
  };

  void Packet() { AppendBytesField(1, packet_, out_), packet_.clear(); }

  void Descriptor(std::string_view track) {
    AppendBytesField(packet::kDescriptor, track, packet_);
    AppendVarintField(packet::kSequence, 1, packet_);
    Packet();
  }

  // The first lane is the thread itself, so that Perfetto shows it as one; others stand below it.
  Lane NewLane(const xplane::Line& line, std::uint64_t process, std::uint64_t thread,
               bool counter) {
    Lane lane{.track = ++uuid_, .sequence = ++sequence_};
    std::string track;
    AppendVarintField(descriptor::kUuid, lane.track, track);
    if (counter) {
      AppendBytesField(descriptor::kName, line.name, track);
      AppendVarintField(descriptor::kParent, process, track);
      AppendBytesField(descriptor::kCounter, "", track);
    } else if (thread == 0) {
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

  // All names of the plane that this line uses, and the track that its events belong to.
  void StartSequence(const Plane& plane, const std::vector<Placed>& events, std::uint32_t index,
                     Lane& lane) {
    lane.started = true;
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
    AppendVarintField(packet::kTimestamp, Nanos(at_ps), packet_);
    AppendVarintField(packet::kSequence, lane.sequence, packet_);
    AppendBytesField(packet::kTrackEvent, what, packet_);
    AppendVarintField(packet::kFlags, kStateNeeded, packet_);
    Packet();
  }

  // Before the zero there is nothing that Perfetto could show.
  static std::uint64_t Nanos(std::int64_t ps) {
    return ps < 0 ? 0 : static_cast<std::uint64_t>(ps) / 1000;
  }

  void CloseUntil(Lane& lane, std::size_t depth) {
    for (; lane.open.size() > depth; lane.open.pop_back()) {
      what_.clear();
      AppendVarintField(event::kType, event::kEnds, what_);
      Emit(lane, lane.open.back(), what_);
    }
  }

  absl::Status WriteLine(const Plane& plane, const xplane::Line& line, std::uint64_t process,
                         std::int64_t shift_ps) {
    ASSIGN_OR_RETURN(const std::vector<Placed> events, xplane::PlaceEvents(line));
    const bool counter = line.name == xplane::kCounterLine;
    std::vector<Lane> lanes;
    for (const Placed& placed : events) {
      while (lanes.size() <= placed.lane)
        lanes.push_back(NewLane(line, process, lanes.empty() ? 0 : lanes[0].track, counter));
      Lane& lane = lanes[placed.lane];
      if (!lane.started) StartSequence(plane, events, placed.lane, lane);
      CloseUntil(lane, placed.depth);
      what_.clear();
      const bool instant = placed.begin_ps == placed.end_ps;
      AppendVarintField(event::kType,
                        counter   ? event::kCounterValue
                        : instant ? event::kInstant
                                  : event::kBegins,
                        what_);
      AppendVarintField(event::kNameIid, static_cast<std::uint64_t>(placed.event.name_id) + 1,
                        what_);
      RETURN_IF_ERROR(AppendStats(plane, placed, counter));
      Emit(lane, placed.begin_ps + shift_ps, what_);
      if (!instant && !counter) lane.open.push_back(placed.end_ps + shift_ps);
      if (out_.size() < kPerfettoPieceBytes) continue;
      RETURN_IF_ERROR(sink_(out_));
      out_.clear();
    }
    for (Lane& lane : lanes) CloseUntil(lane, 0);
    return absl::OkStatus();
  }

  absl::Status AppendStats(const Plane& plane, const Placed& placed, bool counter) {
    std::int64_t producer_type = 0, consumer_type = 0;
    std::optional<std::int64_t> producer, consumer;
    RETURN_IF_ERROR(ForEachStat(plane, placed.event, [&](const Stat& stat) {
      const std::string_view name = plane.NameOf(stat);
      const std::optional<std::int64_t> integer = stat.Integer();
      if (counter) {
        const auto* number = std::get_if<double>(&stat.value);
        if (number != nullptr || integer)
          AppendDoubleField(event::kDoubleCounter,
                            number != nullptr ? *number : static_cast<double>(*integer), what_);
        return;
      }
      if (name == "_pt") producer_type = integer.value_or(0);
      if (name == "_ct") consumer_type = integer.value_or(0);
      if (name == "_p") producer = integer;
      if (name == "_c") consumer = integer;
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
    }));
    if (producer)
      AppendFixed64Field(event::kFlowIds, xplane::FlowId(producer_type, *producer), what_);
    if (consumer)
      AppendFixed64Field(event::kEndingFlowIds, xplane::FlowId(consumer_type, *consumer), what_);
    return absl::OkStatus();
  }

  const Sink& sink_;
  std::string out_, packet_, what_, annotation_;
  std::uint64_t pid_ = 0, tid_ = 0, uuid_ = 0, sequence_ = 1;
};

}  // namespace

absl::Status WritePerfettoTrace(std::span<const WorkerTrace> traces, const Sink& sink) {
  return PerfettoWriter(sink).Write(traces);
}

}  // namespace strobe::convert
