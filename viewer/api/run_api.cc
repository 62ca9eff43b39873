#include "viewer/api/run_api.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/parse_tuple.h"
#include "viewer/answers/activity.h"
#include "viewer/answers/aligned_run.h"
#include "viewer/answers/arrows.h"
#include "viewer/answers/comparison.h"
#include "viewer/answers/details.h"
#include "viewer/answers/find.h"
#include "viewer/answers/graph.h"
#include "viewer/answers/kinds.h"
#include "viewer/answers/selection.h"
#include "viewer/answers/tables.h"
#include "viewer/answers/tiles.h"
#include "viewer/api/xprof_api.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxRows = 1024;
constexpr std::int64_t kMaxNumber = std::numeric_limits<std::uint32_t>::max();

struct Times {
  std::int64_t begin_ps = 0, end_ps = 0;
};
absl::StatusOr<Times> ReadTimes(const http::Query& query) {
  Times times;
  ASSIGN_OR_RETURN(times.begin_ps, query.Integer("begin", 0, -kMaxTimePs, kMaxTimePs));
  ASSIGN_OR_RETURN(times.end_ps, query.Integer("end", kMaxTimePs, -kMaxTimePs, kMaxTimePs));
  if (times.end_ps < times.begin_ps) return absl::InvalidArgumentError("end: lies before begin");
  return times;
}

// The parts of a comma-separated text; none of an empty one.
std::vector<std::string> ListOf(const http::Query& query, const char* name) {
  const std::string& text = query.Text(name);
  return text.empty() ? std::vector<std::string>{} : Split(text, ',');
}

// Reads boxes such as "3:0-2,4:1-1", of the query's own times, or "3:0-2:500:900" with theirs.
absl::StatusOr<std::vector<SelectedBox>> ReadBoxes(const http::Query& query) {
  ASSIGN_OR_RETURN(const Times times, ReadTimes(query));
  std::vector<SelectedBox> boxes;
  for (const std::string& part : ListOf(query, "tracks")) {
    SelectedBox box{.begin_ps = times.begin_ps, .end_ps = times.end_ps};
    const bool read =
        ParseTuple(part, ":-", box.row, box.first, box.last) ||
        ParseTuple(part, ":-::", box.row, box.first, box.last, box.begin_ps, box.end_ps);
    if (!read || box.end_ps < box.begin_ps || box.begin_ps < -kMaxTimePs ||
        box.end_ps > kMaxTimePs || boxes.size() >= kMaxRows)
      return absl::InvalidArgumentError(
          StrCat("tracks: write up to ", kMaxRows,
                 " of row:first-last or row:first-last:begin:end, such as 3:0-2"));
    boxes.push_back(box);
  }
  return boxes;
}

// Reads an event such as "3:0:17", by row, track and ordinal.
bool ReadEvent(const std::string& text, SelectedEvent& event) {
  return ParseTuple(text, "::", event.row, event.track, event.ordinal);
}

absl::StatusOr<std::vector<SelectedEvent>> ReadEvents(const http::Query& query) {
  std::vector<SelectedEvent> events;
  for (const std::string& part : ListOf(query, "events")) {
    SelectedEvent event;
    if (!ReadEvent(part, event) || events.size() >= kMaxRows)
      return absl::InvalidArgumentError(
          StrCat("events: write up to ", kMaxRows, " of row:track:ordinal, such as 3:0:17"));
    events.push_back(event);
  }
  return events;
}

// The event at which a list or a search is to go on.
absl::StatusOr<EventRef> ReadAfter(const LoadedRun& run, const http::Query& query) {
  SelectedEvent event;
  if (!ReadEvent(query.Text("after"), event))
    return absl::InvalidArgumentError("after: write row:track:ordinal, such as 3:0:17");
  const absl::Status none = absl::NotFoundError("after: there is no such event");
  if (event.row >= run.rows.size()) return none;
  const RowRef& ref = run.rows[event.row];
  const index::Index& index = run.WorkerOf(ref).index();
  if (event.track >= run.RowOf(ref).tracks) return none;
  const std::uint32_t track = run.RowOf(ref).first_track + event.track;
  if (!index.EntryAt(index.tracks()[track], event.ordinal)) return none;
  return ReferTo(run, ref.worker, track, event.ordinal);
}

Json ToJson(const LoadedRun& run, const Hit& hit) {
  Json json = {{"row", hit.row},          {"track", hit.track},
               {"ordinal", hit.ordinal},  {"worker", run.rows[hit.row].worker},
               {"beginPs", hit.begin_ps}, {"durationPs", hit.duration_ps},
               {"name", hit.name}};
  if (!hit.reason.name.empty())
    json["matched"] = {{"name", hit.reason.name}, {"value", hit.reason.value}};
  return json;
}

absl::StatusOr<http::Page> HitsPage(const LoadedRun& run, FindRequest& request,
                                    const http::Query& query) {
  constexpr std::size_t kMaxNames = 50;
  request.backwards = query.Text("backwards") == "1";
  ASSIGN_OR_RETURN(request.from_ps, query.Integer("from", run.begin_ps, -kMaxTimePs, kMaxTimePs));
  if (request.after) request.from_ps = std::clamp(request.after->begin_ps, -kMaxTimePs, kMaxTimePs);
  ASSIGN_OR_RETURN(const std::int64_t limit, query.Integer("limit", 100, 1, 10'000));
  request.limit = static_cast<std::uint32_t>(limit);
  const std::string& order = query.Text("order");
  if (!order.empty() && order != "start" && order != "duration")
    return absl::InvalidArgumentError("order: write start or duration");
  request.longest = order == "duration";
  ASSIGN_OR_RETURN(const std::int64_t slots, query.Integer("slots", 0, 0, kMaxActivitySlots));
  request.slots = static_cast<std::uint32_t>(slots);
  ASSIGN_OR_RETURN(const Found found, FindEvents(run, request));
  Json hits = Json::array();
  for (const Hit& hit : found.hits) hits.push_back(ToJson(run, hit));
  Json names = Json::array();
  for (std::size_t i = 0; i < std::min(found.names.size(), kMaxNames); ++i)
    names.push_back(found.names[i]);
  Json lengths;  // Null if they were not looked at.
  if (const Lengths& of = found.lengths; of.count > 0)
    lengths = {{"count", of.count},
               {"leastPs", of.least_ps},
               {"mostPs", of.most_ps},
               {"sumPs", of.sum_ps}};
  return JsonPage(Json{{"total", found.total},
                       {"kinds", found.names.size()},
                       {"names", std::move(names)},
                       {"hits", std::move(hits)},
                       {"unread", found.unread},
                       {"before", found.before},
                       {"slotPs", found.slot_ps},
                       {"marks", found.marks},
                       {"lengths", std::move(lengths)}});
}

}  // namespace

absl::StatusOr<std::shared_ptr<const LoadedRun>> AlignmentOf(
    const std::shared_ptr<const LoadedRun>& run, const http::Query& query,
    const http::IsGone& is_gone) {
  const std::string& by = query.Text("align");
  if (by.empty()) return run;
  return AlignedRun(*run, by, is_gone);
}

absl::StatusOr<http::Page> TilesPage(const LoadedRun& run, const http::Query& query,
                                     const AnswerMeans& means) {
  TileRequest request;
  ASSIGN_OR_RETURN(request.rows, ReadRows(query));
  ASSIGN_OR_RETURN(request.begin_ps, query.Integer("begin", 0, -kMaxTimePs, kMaxTimePs));
  ASSIGN_OR_RETURN(const std::int64_t level, query.Integer("level", 0, 0, kMaxLevel));
  ASSIGN_OR_RETURN(const std::int64_t slots, query.Integer("slots", 512, 1, kMaxSlots));
  request.level = static_cast<std::uint32_t>(level);
  request.slots = static_cast<std::uint32_t>(slots);
  if (slots > kMaxTimePs >> level)
    return absl::InvalidArgumentError("slots: the window is longer than any trace");
  ASSIGN_OR_RETURN(std::string tiles, EncodeTiles(run, request, means.is_gone));
  return http::Page{
      .body = std::move(tiles), .content_type = "application/octet-stream", .compress = true};
}

absl::StatusOr<http::Page> EventPage(const LoadedRun& run, const http::Query& query,
                                     const AnswerMeans&) {
  ASSIGN_OR_RETURN(const std::int64_t row, query.Integer("row", -1, 0, kMaxNumber));
  ASSIGN_OR_RETURN(const std::int64_t track, query.Integer("track", -1, 0, kMaxNumber));
  ASSIGN_OR_RETURN(std::int64_t ordinal, query.Integer("ordinal", -1, 0, kMaxNumber));
  ASSIGN_OR_RETURN(const std::int64_t at, query.Integer("at", 0, -kMaxTimePs, kMaxTimePs));
  ASSIGN_OR_RETURN(const std::int64_t slop, query.Integer("slop", 0, 0, kMaxTimePs));
  const absl::Status none = absl::NotFoundError("there is no event");
  if (row < 0 || track < 0) return none;
  const auto r = static_cast<std::uint32_t>(row), t = static_cast<std::uint32_t>(track);
  if (ordinal < 0) {
    const Prefer prefer = query.Text("here") == "1" ? Prefer::kHere : Prefer::kLongest;
    const auto found = EventAt(run, r, t, at, slop, prefer);
    if (!found) return none;
    ordinal = *found;
  }
  ASSIGN_OR_RETURN(std::string json, EventDetails(run, r, t, static_cast<std::uint32_t>(ordinal)));
  return JsonPage(std::move(json));
}

absl::StatusOr<http::Page> FindPage(const LoadedRun& run, const http::Query& query,
                                    const AnswerMeans& means) {
  constexpr std::size_t kMaxTextBytes = 1000;
  FindRequest request{.text = query.Text("q"),
                      .regex = query.Text("regex") == "1",
                      .match_case = query.Text("case") == "1",
                      .is_gone = means.is_gone};
  if (request.text.empty() || request.text.size() > kMaxTextBytes)
    return absl::InvalidArgumentError(
        StrCat("q: write 1 to ", kMaxTextBytes, " bytes to look for"));
  const std::string& in = query.Text("in");
  if (in == "texts")
    request.in = FindIn::kTexts;
  else if (in == "all")
    request.in = FindIn::kAll;
  else if (!in.empty() && in != "names")
    return absl::InvalidArgumentError("in: write names, texts or all");
  request.count = query.Text("count") != "0";
  if (!query.Text("after").empty()) {
    ASSIGN_OR_RETURN(request.after, ReadAfter(run, query));
  }
  return HitsPage(run, request, query);
}

absl::StatusOr<http::Page> EventsPage(const LoadedRun& run, const http::Query& query,
                                      const AnswerMeans& means) {
  FindRequest request{.is_gone = means.is_gone};
  ASSIGN_OR_RETURN(request.rows, ReadRows(query));
  if (!query.Text("after").empty()) {
    ASSIGN_OR_RETURN(request.after, ReadAfter(run, query));
  }
  return HitsPage(run, request, query);
}

absl::StatusOr<http::Page> SelectPage(const LoadedRun& run, const http::Query& query,
                                      const AnswerMeans& means) {
  ASSIGN_OR_RETURN(const std::vector<SelectedBox> boxes, ReadBoxes(query));
  ASSIGN_OR_RETURN(const std::vector<SelectedEvent> events, ReadEvents(query));
  const Selection selection = SumSelection(run, boxes, events, means.is_gone);
  Json names = Json::array();
  for (const NameSum& sum : selection.names)
    names.push_back({{"name", sum.name},
                     {"worker", sum.worker},
                     {"count", sum.count},
                     {"wallPs", sum.wall_ps},
                     {"selfPs", sum.self_ps}});
  return JsonPage(Json{{"count", selection.count},
                       {"beginPs", selection.begin_ps},
                       {"endPs", selection.end_ps},
                       {"names", std::move(names)}});
}

Json ToJson(const Bundle::End& end) { return {end.row, end.track, end.at_ps}; }

absl::StatusOr<http::Page> ArrowsPage(const LoadedRun& run, const http::Query& query,
                                      const AnswerMeans& means) {
  BundleRequest request{.is_gone = means.is_gone};
  ASSIGN_OR_RETURN(request.rows, ReadRows(query));
  ASSIGN_OR_RETURN(const Times times, ReadTimes(query));
  request.begin_ps = times.begin_ps;
  request.end_ps = times.end_ps;
  ASSIGN_OR_RETURN(const std::int64_t level, query.Integer("level", 0, 0, kMaxBundleLevel));
  request.level = static_cast<std::uint32_t>(level);
  ASSIGN_OR_RETURN(const std::int64_t limit, query.Integer("limit", 10'000, 1, 20'000));
  request.limit = static_cast<std::uint32_t>(limit);
  const Bundles found = BundleArrows(run, request);
  Json bundles = Json::array();
  for (const Bundle& bundle : found.bundles)
    bundles.push_back({ToJson(bundle.from), ToJson(bundle.to), bundle.count});
  return JsonPage(
      Json{{"total", found.total}, {"drawn", found.drawn}, {"bundles", std::move(bundles)}});
}

absl::StatusOr<http::Page> GraphPage(const LoadedRun& run, const http::Query& query,
                                     const AnswerMeans&) {
  GraphRequest request;
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  ASSIGN_OR_RETURN(const std::int64_t worker, query.Integer("worker", 0, 0, kMaxNumber));
  request.worker = static_cast<std::uint32_t>(worker);
  request.op = {.instruction = query.Text("instruction"), .module = query.Text("module")};
  if (!query.Text("program").empty()) {
    ASSIGN_OR_RETURN(request.op.program, query.Integer("program", 0, kMin, kMax));
  }
  ASSIGN_OR_RETURN(const std::int64_t levels, query.Integer("levels", 2, 0, 10));
  ASSIGN_OR_RETURN(const std::int64_t fan, query.Integer("fan", 8, 1, 1000));
  ASSIGN_OR_RETURN(const std::int64_t limit, query.Integer("limit", 80, 1, 1000));
  request.levels = static_cast<std::uint32_t>(levels);
  request.fan = static_cast<std::uint32_t>(fan);
  request.limit = static_cast<std::uint32_t>(limit);
  ASSIGN_OR_RETURN(std::string json, DrawGraph(run, request));
  return JsonPage(std::move(json));
}

absl::StatusOr<http::Page> ActivityPage(const LoadedRun& run, const http::Query& query,
                                        const AnswerMeans& means) {
  ASSIGN_OR_RETURN(const std::int64_t slots,
                   query.Integer("slots", 512, kMinActivitySlots, kMaxActivitySlots));
  ASSIGN_OR_RETURN(const std::int64_t bands, query.Integer("bands", 8, 1, kMaxBands));
  const Activity activity = ActivityOf(run, static_cast<std::uint32_t>(slots),
                                       static_cast<std::uint32_t>(bands), means.is_gone);
  return JsonPage(Json{{"beginPs", activity.begin_ps},
                       {"slotPs", activity.slot_ps},
                       {"bands", activity.bands},
                       {"workers", activity.workers}});
}

absl::StatusOr<http::Page> KindsPage(const LoadedRun& run, const http::Query&, const AnswerMeans&) {
  return JsonPage(KindsOf(run));
}

absl::StatusOr<http::Page> StepsPage(const LoadedRun& run, const http::Query& query,
                                     const AnswerMeans& means) {
  constexpr auto kAny = std::numeric_limits<std::int64_t>::max();
  ASSIGN_OR_RETURN(const std::int64_t number, query.Integer("number", 0, -kAny, kAny));
  ASSIGN_OR_RETURN(std::string json, query.Has("number")
                                         ? FindComparedStep(run, number, means.is_gone)
                                         : CompareSteps(run, means.is_gone));
  return JsonPage(std::move(json));
}

absl::StatusOr<http::Page> XprofHostsPage(const LoadedRun& run, const http::Query&,
                                          const AnswerMeans&) {
  return JsonPage(XprofHosts(run));
}

absl::StatusOr<http::Page> XprofDataPage(const LoadedRun& run, const http::Query& query,
                                         const AnswerMeans& means) {
  const std::string& tag = query.Text("tag");
  if (tag != "trace_viewer@" && tag != "trace_viewer")
    return absl::NotFoundError("only tag=trace_viewer@ is served here");
  if (query.Text("format") == "pb")
    return absl::InvalidArgumentError("format: only json is served here");
  SpooledAnswer answer(means.scratch, means.asker, means.is_gone);
  if (means.takes_gzip) answer.Compress();
  RETURN_IF_ERROR(
      WriteXprofData(run, query, [&](std::string_view piece) { return answer.Write(piece); }));
  http::Page page{.content_type = "application/json"};
  RETURN_IF_ERROR(answer.MoveInto(page));
  return page;
}

absl::StatusOr<http::Page> TablePage(const LoadedRun& run, const http::Query& query,
                                     const AnswerMeans& means) {
  std::optional<std::uint32_t> worker;  // All of them without one.
  if (query.Has("worker")) {
    ASSIGN_OR_RETURN(const std::int64_t number, query.Integer("worker", 0, 0, kMaxNumber));
    worker = static_cast<std::uint32_t>(number);
  }
  ASSIGN_OR_RETURN(std::string json, TableOf(run, query.Text("table"), worker, means.is_gone));
  return JsonPage(std::move(json));
}

absl::StatusOr<std::vector<std::uint32_t>> ReadRows(const http::Query& query) {
  std::vector<std::uint32_t> rows;
  for (const std::string& part : Split(query.Text("rows"), ',')) {
    std::uint32_t first = 0, last = 0;
    bool read = ParseTuple(part, "", first);
    if (read)
      last = first;
    else
      read = ParseTuple(part, "-", first, last);
    if (!read || last < first || last - first >= kMaxRows ||
        rows.size() + (last - first) >= kMaxRows)
      return absl::InvalidArgumentError(
          StrCat("rows: write up to ", kMaxRows, " numbers, such as 3,5-9"));
    for (std::uint32_t row = first; row <= last; ++row) rows.push_back(row);
  }
  // Each row once: its answer may be large.
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

http::Page JsonPage(std::string text) {
  return {.body = std::move(text), .content_type = "application/json", .compress = true};
}

http::Page JsonPage(const Json& json) { return JsonPage(JsonText(json)); }

http::Page DescriptionPage(const LoadedRun& run) { return JsonPage(DescribeRun(run)); }

bool BeginsXprofPage(const http::Query& query) {
  return !query.Has("unique_id") && !query.Has("start_time_ms") && !query.Has("search_prefix");
}

}  // namespace strobe::viewer
