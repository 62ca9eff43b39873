#include "viewer/answers/details.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "collector/trace/analysis/hlo_module.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "viewer/answers/arrows.h"
#include "viewer/answers/event_source.h"
#include "viewer/answers/hlo_op.h"
#include "viewer/answers/launch_chain.h"
#include "viewer/answers/selection.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;
using index::Entry;
using index::Index;
using index::Track;

constexpr std::size_t kMaxArrows = 200;

// A number, or text if JavaScript's numbers (doubles) would round it.
template <typename Integer>
Json Exact(Integer value) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (std::cmp_less_equal(value, kExact) && std::cmp_greater_equal(value, -kExact)) return value;
  return std::to_string(value);
}

Json ToJson(const xplane::Stat& stat) {
  if (const auto* integer = std::get_if<std::int64_t>(&stat.value)) return Exact(*integer);
  if (const auto* natural = std::get_if<std::uint64_t>(&stat.value)) return Exact(*natural);
  if (const auto* number = std::get_if<double>(&stat.value))
    return std::isfinite(*number) ? Json(*number) : Json(StrCat(*number));
  if (const auto* text = std::get_if<std::string_view>(&stat.value)) return *text;
  return {};
}

Json Brief(const LoadedRun& run, const EventRef& event) {
  return {{"row", event.row},
          {"track", event.track},
          {"ordinal", event.ordinal},
          {"name", event.name},
          {"line", run.LineOf(event.row)},
          {"beginPs", event.begin_ps},
          {"durationPs", event.duration_ps}};
}

// The event on a track of row `number` that runs at `middle_ps`.
std::optional<EventRef> Around(const LoadedRun& run, std::uint32_t number, std::uint32_t track,
                               std::int64_t middle_ps) {
  const std::optional<std::uint32_t> ordinal = EventAt(run, number, track, middle_ps, 0);
  if (!ordinal) return std::nullopt;
  return ReferTo(run, run.rows[number].worker, run.RowOf(run.rows[number]).first_track + track,
                 *ordinal);
}

// Adds what ran around the event: the module and the step on the same plane, which is the same
// device, and the event that encloses it on its own row. They are found by time, because events do
// not refer to them.
void AddSurroundings(const LoadedRun& run, std::uint32_t number, std::uint32_t track,
                     std::int64_t middle_ps, Json& json) {
  const RowRef& ref = run.rows[number];
  const Index& index = run.WorkerOf(ref).index();
  const index::Row& own = run.RowOf(ref);
  const index::Plane& plane = index.planes()[own.plane];
  for (std::uint32_t r = plane.first_row;
       r < plane.first_row + plane.rows && r < index.rows().size(); ++r) {
    const std::string_view name = TensorCoreLine(index.Text(index.rows()[r].name));
    if (r == ref.row || (name != "XLA Modules" && name != "Steps")) continue;
    if (const auto around = Around(run, run.NumberOf(ref.worker, r), 0, middle_ps))
      json[name == "Steps" ? "step" : "module"] = Brief(run, *around);
  }
  const Track& here = index.tracks()[own.first_track + track];
  for (std::uint32_t t = 0; t < own.tracks; ++t) {
    const Track& outer = index.tracks()[own.first_track + t];
    if (outer.lane != here.lane || outer.depth + 1 != here.depth) continue;
    if (const auto around = Around(run, number, t, middle_ps)) json["parent"] = Brief(run, *around);
  }
}

// Adds the HLO instruction of an XLA op, and whether the trace holds its graph.
absl::Status AddHlo(const LoadedRun& run, std::uint32_t number, const EventSource& source,
                    const xplane::Event& event, std::int64_t middle_ps, Json& json) {
  ASSIGN_OR_RETURN(const std::optional<HloOp> op,
                   HloOpOf(run, number, *source.plane, event, middle_ps));
  if (!op) return absl::OkStatus();
  const std::uint32_t worker = run.rows[number].worker;
  json["hlo"] = {
      {"worker", worker},
      {"instruction", op->instruction},
      {"module", op->module},
      {"program", op->program ? Json(std::to_string(*op->program)) : Json()},
      {"held",
       analysis::FindHloProto(run.workers[worker].files->space, op->module, op->program).ok()}};
  return absl::OkStatus();
}

// Adds how the event came to run.
absl::Status AddLaunchChain(const LoadedRun& run, std::uint32_t number, std::uint32_t track,
                            std::uint32_t ordinal, Json& json) {
  ASSIGN_OR_RETURN(const LaunchChain chain, ChainOf(run, number, track, ordinal));
  const auto list = [&](const std::vector<ChainLink>& links) {
    Json all = Json::array();
    for (const ChainLink& link : links) {
      Json event = Brief(run, link.event);
      event["what"] = link.what;
      all.push_back(std::move(event));
    }
    return all;
  };
  json["chain"] = list(chain.links);
  if (!chain.forward.empty()) json["forward"] = list(chain.forward);
  if (!chain.graph.empty()) json["graph"] = chain.graph;
  if (!chain.captured.empty()) json["captured"] = list(chain.captured);
  return absl::OkStatus();
}

}  // namespace

std::optional<std::uint32_t> EventAt(const LoadedRun& run, std::uint32_t row, std::uint32_t track,
                                     std::int64_t at_ps, std::int64_t slop_ps, Prefer prefer) {
  if (row >= run.rows.size() || track >= run.RowOf(run.rows[row]).tracks) return std::nullopt;
  const Worker& worker = run.WorkerOf(run.rows[row]);
  const Index& index = worker.index();
  const Track& asked = index.tracks()[run.RowOf(run.rows[row]).first_track + track];
  const std::int64_t at = at_ps - worker.shift_ps;
  const std::uint64_t first = index.FirstReaching(asked, at);
  const std::uint64_t last = index.FirstFrom(asked, at + slop_ps + 1);
  // A click on a pixel with more events than this finds one of the first ones. Looking at all would
  // take long, and the user cannot tell them apart.
  constexpr std::uint64_t kMaxLooks = 100'000;
  std::optional<std::uint32_t> best;
  std::int64_t longest = -1;
  index.ForEachEntry(asked, first, std::min(last, first + kMaxLooks),
                     [&](std::uint64_t ordinal, const Entry& entry) {
                       const bool later = entry.begin_ps > at;
                       const bool here = entry.begin_ps >= at || entry.end_ps() > at;
                       if (later && best && prefer == Prefer::kHere) return;
                       if (!here || entry.duration_ps <= longest) return;
                       longest = entry.duration_ps;
                       best = static_cast<std::uint32_t>(ordinal);
                     });
  return best;
}

absl::StatusOr<std::string> EventDetails(const LoadedRun& run, std::uint32_t number,
                                         std::uint32_t track, std::uint32_t ordinal) {
  const absl::Status none = absl::NotFoundError("there is no such event");
  if (number >= run.rows.size()) return none;
  const RowRef& ref = run.rows[number];
  const Worker& worker = run.WorkerOf(ref);
  const Index& index = worker.index();
  const index::Row& row = run.RowOf(ref);
  if (track >= row.tracks) return none;
  const std::optional<Entry> entry =
      index.EntryAt(index.tracks()[row.first_track + track], ordinal);
  if (!entry) return none;
  ASSIGN_OR_RETURN(const EventSource source, SourceOf(run, ref));
  const xplane::Plane& plane = *source.plane;
  ASSIGN_OR_RETURN(const std::string_view bytes, source.At(entry->offset));
  xplane::Event event;
  RETURN_IF_ERROR(xplane::ParseEvent(bytes, event));

  Json json = {{"row", number},
               {"track", track},
               {"ordinal", ordinal},
               {"name", index.Text(entry->name)},
               {"run", run.name},
               {"worker", worker.name},
               {"plane", index.Text(index.planes()[row.plane].name)},
               {"pool", ref.pool},
               {"line", index.Text(row.name)},
               {"beginPs", entry->begin_ps + worker.shift_ps},
               {"durationPs", entry->duration_ps},
               {"selfPs", SelfTime(index, row.first_track + track, *entry)}};
  Json args = Json::array();
  const auto add = [&](const xplane::Stat& stat) {
    args.push_back({{"name", plane.NameOf(stat)}, {"value", ToJson(stat)}});
  };
  RETURN_IF_ERROR(ForEachStat(plane, event, add));
  // Arguments may also be stored once for all events of a name, as may a longer name.
  if (const auto kind = plane.event_names.find(event.name_id); kind != plane.event_names.end()) {
    if (kind->second.shown() != kind->second.name) json["longName"] = kind->second.name;
    RETURN_IF_ERROR(plane.ForEachKindStat(kind->second, add));
  }
  json["args"] = std::move(args);
  const std::int64_t middle_ps = entry->begin_ps + worker.shift_ps + entry->duration_ps / 2;
  RETURN_IF_ERROR(AddHlo(run, number, source, event, middle_ps, json));
  AddSurroundings(run, number, track, middle_ps, json);
  RETURN_IF_ERROR(AddLaunchChain(run, number, track, ordinal, json));
  json["in"] = json["out"] = Json::array();
  for (const Arrow& arrow : ArrowsOf(run, number, track, ordinal, kMaxArrows)) {
    const bool incoming =
        arrow.to.row == number && arrow.to.track == track && arrow.to.ordinal == ordinal;
    json[incoming ? "in" : "out"].push_back(Brief(run, incoming ? arrow.from : arrow.to));
  }
  return JsonText(json);
}

}  // namespace strobe::viewer
