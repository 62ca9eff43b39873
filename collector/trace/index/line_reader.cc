#include "collector/trace/index/line_reader.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "collector/trace/xplane/flows.h"
#include "collector/trace/xplane/names.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::index {
namespace {

// Events that are nested more deeply share the last track, which then has overlapping events.
constexpr std::uint32_t kMaxDepth = 512;
// An event's number on its track has 32 bits.
constexpr std::uint64_t kMaxEvents = std::numeric_limits<std::uint32_t>::max();
// A line with this many events keeps its ends of links in parts, each with a buffer of its own.
constexpr std::size_t kManyEvents = 16'384;

class LineReader {
 public:
  explicit LineReader(LineWork& work) : work_(work) {}

  absl::Status Read(std::vector<xplane::Placed>& events) {
    RETURN_IF_ERROR(xplane::PlaceEvents(*work_.line, events));
    if (events.size() >= kMaxEvents)
      return absl::OutOfRangeError(StrCat("line \"", work_.line->name, "\" has ", events.size(),
                                          " events; up to ", kMaxEvents, " can be shown"));
    for (const xplane::Placed& event : events) {
      work_.begin_ps = std::min(work_.begin_ps, event.begin_ps);
      work_.end_ps = std::max(work_.end_ps, event.end_ps);
    }
    RETURN_IF_ERROR(work_.line->name == xplane::kCounterLine ? ReadValues(events)
                                                             : ReadSpans(events));
    for (TrackWriter& track : work_.tracks) track.Finish();
    work_.ends.Shrink();
    return absl::OkStatus();
  }

 private:
  absl::Status ReadSpans(const std::vector<xplane::Placed>& events) {
    const xplane::FlowReader flows(*work_.plane);
    if (flows.any() && events.size() >= kManyEvents) work_.ends.Split();
    std::vector<std::vector<std::uint32_t>> track_of;  // By lane, then depth.
    for (const xplane::Placed& event : events) {
      const std::uint32_t depth = std::min(event.depth, kMaxDepth - 1);
      if (track_of.size() <= event.lane) track_of.resize(event.lane + 1);
      std::vector<std::uint32_t>& lane = track_of[event.lane];
      // An event of depth d lies inside events of all smaller depths, so that tracks are added in
      // the order of their depths.
      while (lane.size() <= depth) {
        lane.push_back(AddTrack(event.lane, static_cast<std::uint32_t>(lane.size())));
      }
      const std::uint32_t number = lane[depth];
      TrackWriter& track = work_.tracks[number];
      if (flows.any()) {
        RETURN_IF_ERROR(flows.Read(event.event, [&](std::uint64_t id, bool incoming) {
          work_.ends.Add({id, number | (incoming ? LinkEnd::kIncoming : 0), track.events()});
        }));
      }
      ASSIGN_OR_RETURN(const std::uint32_t name, NameOf(event.event));
      Count(name);
      track.Add(event.begin_ps, event.end_ps, name, work_.source->PlaceOf(event));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::uint32_t> NameOf(const xplane::Event& event) const {
    std::uint32_t name = work_.names->Of(event.name_id);
    if (!work_.names->MayHaveOwn(event.name_id)) return name;
    RETURN_IF_ERROR(ForEachStat(*work_.plane, event, [&](const xplane::Stat& stat) {
      name = work_.names->OwnOf(stat).value_or(name);
    }));
    return name;
  }

  // Makes one track, which becomes one row, for each counter's name.
  absl::Status ReadValues(const std::vector<xplane::Placed>& events) {
    std::unordered_map<std::uint32_t, std::uint32_t> track_of;
    for (const xplane::Placed& event : events) {
      const std::uint32_t name = work_.names->Of(event.event.name_id);
      const auto [found, added] = track_of.try_emplace(name, 0);
      if (added) found->second = AddTrack(0, 0);
      std::optional<double> value;
      RETURN_IF_ERROR(ForEachStat(*work_.plane, event.event, [&](const xplane::Stat& stat) {
        if (!value) value = stat.Number();
      }));
      Count(name);
      work_.tracks[found->second].AddValue(event.begin_ps, name, work_.source->PlaceOf(event),
                                           value.value_or(0));
    }
    return absl::OkStatus();
  }

  std::uint32_t AddTrack(std::uint32_t lane, std::uint32_t depth) {
    TrackWriter& track = work_.tracks.emplace_back(work_.spill);
    track.track.lane = lane;
    track.track.depth = depth;
    track.track.overlapping = lane + 1 == xplane::kMaxLanes || depth + 1 == kMaxDepth;
    return static_cast<std::uint32_t>(work_.tracks.size() - 1);
  }

  void Count(std::uint32_t name) {
    if (work_.counts.size() <= name) work_.counts.resize(name + 1);
    ++work_.counts[name];
  }

  LineWork& work_;
};

}  // namespace

NameIds::NameIds(const xplane::Plane& plane, Texts& texts) : unknown_(texts.Id("?")) {
  const std::size_t dense = 4 * plane.event_names.size() + 1024;
  dense_.resize(dense, unknown_);
  // Numbers of texts must not depend on the random order of the plane's names.
  std::vector<std::pair<std::int64_t, const xplane::EventName*>> kinds;
  kinds.reserve(plane.event_names.size());
  for (const auto& [id, name] : plane.event_names) kinds.emplace_back(id, &name);
  std::ranges::sort(kinds);
  for (const auto& [id, name] : kinds) {
    const std::uint32_t text = texts.Id(name->shown());
    if (id >= 0 && static_cast<std::size_t>(id) < dense)
      dense_[static_cast<std::size_t>(id)] = text;
    else
      sparse_[id] = text;
  }
  own_stat_ = plane.StatId(xplane::kOwnName);
  if (own_stat_ == 0) return;
  for (const auto& [id, name] : kinds)
    if (name->name == xplane::kTorchStep) own_kind_ = id;
  std::set<std::string_view> steps;
  for (const auto& [id, text] : plane.stat_names)
    if (text.starts_with(xplane::kTorchStep)) steps.insert(text);
  // Here, because lines are read at the same time.
  for (const std::string_view text : steps) own_.emplace(text, texts.Id(text));
}

std::optional<std::uint32_t> NameIds::OwnOf(const xplane::Stat& stat) const {
  if (stat.name_id != own_stat_) return std::nullopt;
  const auto* text = std::get_if<std::string_view>(&stat.value);
  const auto found = text == nullptr ? own_.end() : own_.find(*text);
  return found == own_.end() ? std::nullopt : std::optional(found->second);
}

absl::Status ReadLine(LineWork& work, std::vector<xplane::Placed>& events) {
  return LineReader(work).Read(events);
}

}  // namespace strobe::index
