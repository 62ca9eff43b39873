#include "viewer/viewer.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "viewer/arrows.h"
#include "viewer/assets.h"
#include "viewer/comparison.h"
#include "viewer/details.h"
#include "viewer/find.h"
#include "viewer/selection.h"
#include "viewer/tiles.h"
#include "viewer/xprof_face.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostLoaded = 2;
constexpr std::size_t kMostRows = 1024;
constexpr std::int64_t kFarthest = std::int64_t{1} << 61;
constexpr std::int64_t kMostNumber = std::numeric_limits<std::uint32_t>::max();
// XProf's page waits for its data; ours asks again.
constexpr Nanos kXprofWait = std::chrono::seconds(60);
constexpr std::string_view kXprof = "/data/plugin/profile";
constexpr char kXprofHosts[] = "/data/plugin/profile/hosts",
               kXprofData[] = "/data/plugin/profile/data";

Page JsonPage(std::string text) {
  return {.body = std::move(text), .content_type = "application/json", .compress = true};
}
Page JsonPage(const Json& json) {
  return JsonPage(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Page ErrorPage(const absl::Status& status) {
  int code = 500;
  if (absl::IsInvalidArgument(status)) code = 400;
  if (absl::IsNotFound(status)) code = 404;
  if (absl::IsUnavailable(status)) code = 503;
  return {.status = code, .body = Words(status) + "\n"};
}

// The page may load what this server gives, and nothing else; nobody may frame it.
void AddPolicy(Page& page) {
  page.headers.emplace_back("Content-Security-Policy",
                            "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
                            "'self' blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; "
                            "form-action 'none'; frame-ancestors 'none'");
  page.headers.emplace_back("X-Content-Type-Options", "nosniff");
  page.headers.emplace_back("Referrer-Policy", "no-referrer");
  page.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
}

// "3,5-9": numbers and ranges.
absl::StatusOr<std::vector<std::uint32_t>> ReadRows(const Query& query) {
  std::vector<std::uint32_t> rows;
  for (const std::string& part : Split(query.Text("rows"), ',')) {
    std::uint32_t first = 0, last = 0;
    const char* end = part.data() + part.size();
    auto [at, error] = std::from_chars(part.data(), end, first);
    last = first;
    if (error == std::errc() && at != end && *at == '-')
      std::tie(at, error) = [&] {
        const auto read = std::from_chars(at + 1, end, last);
        return std::pair(read.ptr, read.ec);
      }();
    if (error != std::errc() || at != end || last < first || last - first >= kMostRows ||
        rows.size() + (last - first) >= kMostRows)
      return absl::InvalidArgumentError(
          StrCat("rows: write up to ", kMostRows, " numbers, such as 3,5-9"));
    for (std::uint32_t row = first; row <= last; ++row) rows.push_back(row);
  }
  return rows;
}

// "3:0-2,4:1-1": tracks of rows.
absl::StatusOr<std::vector<TrackRange>> ReadTracks(const Query& query) {
  std::vector<TrackRange> ranges;
  for (const std::string& part : Split(query.Text("tracks"), ',')) {
    TrackRange range;
    char behind = 0;
    if (std::sscanf(part.c_str(), "%u:%u-%u%c", &range.row, &range.first, &range.last, &behind) !=
            3 ||
        ranges.size() >= kMostRows)
      return absl::InvalidArgumentError(
          StrCat("tracks: write up to ", kMostRows, " of row:first-last, such as 3:0-2"));
    ranges.push_back(range);
  }
  return ranges;
}

struct Times {
  std::int64_t begin_ps = 0, end_ps = 0;
};
absl::StatusOr<Times> ReadTimes(const Query& query) {
  Times times;
  ASSIGN_OR_RETURN(times.begin_ps, query.Integer("begin", 0, -kFarthest, kFarthest));
  ASSIGN_OR_RETURN(times.end_ps, query.Integer("end", kFarthest, -kFarthest, kFarthest));
  if (times.end_ps < times.begin_ps) return absl::InvalidArgumentError("end: lies before begin");
  return times;
}

Json ToJson(const LoadedRun& run, const Hit& hit) {
  return {{"row", hit.row},          {"track", hit.track},
          {"ordinal", hit.ordinal},  {"worker", run.rows[hit.row].worker},
          {"beginPs", hit.begin_ps}, {"durationPs", hit.duration_ps},
          {"name", hit.name}};
}

absl::StatusOr<Page> FindPage(const LoadedRun& run, FindRequest& request, const Query& query) {
  constexpr std::size_t kMostNames = 50;
  request.backwards = query.Text("backwards") == "1";
  ASSIGN_OR_RETURN(request.from_ps, query.Integer("from", run.begin_ps, -kFarthest, kFarthest));
  ASSIGN_OR_RETURN(const std::int64_t limit, query.Integer("limit", 100, 1, 10'000));
  request.limit = static_cast<std::uint32_t>(limit);
  ASSIGN_OR_RETURN(const Found found, FindEvents(run, request));
  Json hits = Json::array();
  for (const Hit& hit : found.hits) hits.push_back(ToJson(run, hit));
  Json names = Json::array();
  for (std::size_t i = 0; i < std::min(found.names.size(), kMostNames); ++i)
    names.push_back(found.names[i]);
  return JsonPage(Json{{"total", found.total},
                       {"kinds", found.names.size()},
                       {"names", std::move(names)},
                       {"hits", std::move(hits)}});
}

Json ToJson(const EventRef& end) {
  return {end.row, end.track, end.ordinal, end.begin_ps, end.duration_ps};
}

absl::StatusOr<Page> DescribePage(const LoadedRun& run, const Query&) {
  return JsonPage(DescribeRun(run));
}

absl::StatusOr<Page> Tiles(const LoadedRun& run, const Query& query) {
  TileRequest request;
  ASSIGN_OR_RETURN(request.rows, ReadRows(query));
  ASSIGN_OR_RETURN(request.begin_ps, query.Integer("begin", 0, -kFarthest, kFarthest));
  ASSIGN_OR_RETURN(const std::int64_t level, query.Integer("level", 0, 0, kMostLevel));
  ASSIGN_OR_RETURN(const std::int64_t slots, query.Integer("slots", 512, 1, kMostSlots));
  request.level = static_cast<std::uint32_t>(level);
  request.slots = static_cast<std::uint32_t>(slots);
  if (slots > kFarthest >> level)
    return absl::InvalidArgumentError("slots: the window is longer than any trace");
  return Page{.body = EncodeTiles(run, request),
              .content_type = "application/octet-stream",
              .compress = true};
}

absl::StatusOr<Page> Event(const LoadedRun& run, const Query& query) {
  ASSIGN_OR_RETURN(const std::int64_t row, query.Integer("row", -1, 0, kMostNumber));
  ASSIGN_OR_RETURN(const std::int64_t track, query.Integer("track", -1, 0, kMostNumber));
  ASSIGN_OR_RETURN(std::int64_t ordinal, query.Integer("ordinal", -1, 0, kMostNumber));
  ASSIGN_OR_RETURN(const std::int64_t at, query.Integer("at", 0, -kFarthest, kFarthest));
  ASSIGN_OR_RETURN(const std::int64_t slop, query.Integer("slop", 0, 0, kFarthest));
  const absl::Status none = absl::NotFoundError("there is no event");
  if (row < 0 || track < 0) return none;
  const auto r = static_cast<std::uint32_t>(row), t = static_cast<std::uint32_t>(track);
  if (ordinal < 0) {
    const auto found = EventAt(run, r, t, at, slop);
    if (!found) return none;
    ordinal = *found;
  }
  ASSIGN_OR_RETURN(std::string json, EventDetails(run, r, t, static_cast<std::uint32_t>(ordinal)));
  return JsonPage(std::move(json));
}

absl::StatusOr<Page> Find(const LoadedRun& run, const Query& query) {
  constexpr std::size_t kLongest = 1000;
  FindRequest request{.text = query.Text("q"),
                      .regex = query.Text("regex") == "1",
                      .match_case = query.Text("case") == "1"};
  if (request.text.empty() || request.text.size() > kLongest)
    return absl::InvalidArgumentError(StrCat("q: write 1 to ", kLongest, " bytes to look for"));
  return FindPage(run, request, query);
}

absl::StatusOr<Page> Events(const LoadedRun& run, const Query& query) {
  FindRequest request;
  ASSIGN_OR_RETURN(request.rows, ReadRows(query));
  return FindPage(run, request, query);
}

absl::StatusOr<Page> Select(const LoadedRun& run, const Query& query) {
  ASSIGN_OR_RETURN(const std::vector<TrackRange> tracks, ReadTracks(query));
  ASSIGN_OR_RETURN(const Times times, ReadTimes(query));
  const Selection selection = SumSelection(run, tracks, times.begin_ps, times.end_ps);
  Json names = Json::array();
  for (const NameSum& sum : selection.names)
    names.push_back({{"name", sum.name},
                     {"count", sum.count},
                     {"wallPs", sum.wall_ps},
                     {"selfPs", sum.self_ps}});
  return JsonPage(Json{{"count", selection.count},
                       {"beginPs", selection.begin_ps},
                       {"endPs", selection.end_ps},
                       {"names", std::move(names)}});
}

absl::StatusOr<Page> ShowArrows(const LoadedRun& run, const Query& query) {
  ArrowRequest request;
  ASSIGN_OR_RETURN(request.rows, ReadRows(query));
  ASSIGN_OR_RETURN(const Times times, ReadTimes(query));
  request.begin_ps = times.begin_ps;
  request.end_ps = times.end_ps;
  ASSIGN_OR_RETURN(const std::int64_t limit, query.Integer("limit", 500, 1, 10'000));
  request.limit = static_cast<std::uint32_t>(limit);
  const Arrows found = FindArrows(run, request);
  Json arrows = Json::array();
  for (const Arrow& arrow : found.arrows) arrows.push_back({ToJson(arrow.from), ToJson(arrow.to)});
  return JsonPage(Json{{"total", found.total}, {"arrows", std::move(arrows)}});
}

absl::StatusOr<Page> Steps(const LoadedRun& run, const Query&) {
  ASSIGN_OR_RETURN(std::string json, CompareSteps(run));
  return JsonPage(std::move(json));
}

absl::StatusOr<Page> XprofHostsPage(const LoadedRun& run, const Query&) {
  return JsonPage(XprofHosts(run));
}

absl::StatusOr<Page> XprofDataPage(const LoadedRun& run, const Query& query) {
  const std::string& tag = query.Text("tag");
  if (tag != "trace_viewer@" && tag != "trace_viewer")
    return absl::NotFoundError("only tag=trace_viewer@ is served here");
  if (query.Text("format") == "pb")
    return absl::InvalidArgumentError("format: only json is served here");
  ASSIGN_OR_RETURN(std::string json, XprofData(run, query));
  return JsonPage(std::move(json));
}

}  // namespace

Viewer::Viewer(Library& library, ViewerOptions options)
    : library_(library), options_(std::move(options)) {}

Page Viewer::Answer(const Request& request) {
  Page page;
  if (!MayAsk(request.host)) {
    page = {.status = 403,
            .body =
                "this server is not asked for under that name; open it as localhost, or allow "
                "the name with --allow-host\n"};
  } else {
    absl::StatusOr<Page> answer = Route(request);
    page = answer.ok() ? *std::move(answer) : ErrorPage(answer.status());
  }
  AddPolicy(page);
  return page;
}

bool Viewer::MayAsk(const std::string& host) const {
  std::string name = host.substr(0, host.find(':'));
  if (host.starts_with('[')) name = host.substr(0, host.find(']') + 1);
  const bool digits = name.find_first_not_of("0123456789.") == std::string::npos;
  if (name == "localhost" || name == "[::1]" || (digits && name.starts_with("127."))) return true;
  return std::find(options_.hosts.begin(), options_.hosts.end(), name) != options_.hosts.end();
}

absl::StatusOr<Page> Viewer::Route(const Request& request) {
  using Api = absl::StatusOr<Page> (Viewer::*)(const Query&);
  static const std::map<std::string, Api, std::less<>> kApis = {
      {"/api/runs", &Viewer::Runs},
      {"/api/run", &Viewer::Describe},
      {StrCat(kXprof, "/runs"), &Viewer::XprofRuns},
      {StrCat(kXprof, "/run_tools"), &Viewer::XprofTools},
  };
  static const std::map<std::string, RunApi, std::less<>> kRunApis = {
      {"/api/tiles", &Tiles}, {"/api/event", &Event},         {"/api/events", &Events},
      {"/api/find", &Find},   {"/api/select", &Select},       {"/api/arrows", &ShowArrows},
      {"/api/steps", &Steps}, {kXprofHosts, &XprofHostsPage}, {kXprofData, &XprofDataPage},
  };
  const Query query(request.query);
  if (const auto api = kApis.find(request.path); api != kApis.end())
    return (this->*api->second)(query);
  if (const auto api = kRunApis.find(request.path); api != kRunApis.end()) {
    ASSIGN_OR_RETURN(const std::shared_ptr<Loader> loader, LoaderOf(query));
    return AskRun(loader, api->second, query, IsSlow(request) ? kXprofWait : Nanos{0});
  }
  for (const Asset& asset : Assets()) {
    if (asset.path == request.path)
      return Page{.body = std::string(asset.body),
                  .content_type = std::string(asset.content_type),
                  .compress = true};
  }
  return absl::NotFoundError("no such page");
}

std::shared_ptr<Loader> Viewer::Known(const std::string& run) {
  const auto known = std::find_if(loaders_.begin(), loaders_.end(),
                                  [&](const auto& loader) { return loader.first == run; });
  if (known == loaders_.end()) return nullptr;
  std::rotate(known, known + 1, loaders_.end());
  return loaders_.back().second;
}

absl::StatusOr<std::shared_ptr<Loader>> Viewer::LoaderOf(const Query& query) {
  std::string name = query.Text("run");
  {
    MutexLock lock(&mutex_);
    if (std::shared_ptr<Loader> known = Known(name)) return known;
  }
  // Only for runs that are not open: in a bucket this is a request of its own.
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, library_.Runs());
  if (runs.empty())
    return absl::NotFoundError(StrCat(library_.place(), " has no runs; strobe capture makes one"));
  if (name.empty()) name = runs.front();
  if (std::find(runs.begin(), runs.end(), name) == runs.end())
    return absl::NotFoundError(StrCat("there is no run ", name.substr(0, 200)));
  std::shared_ptr<Loader> evicted;  // Ends outside of the lock: it waits for its thread.
  MutexLock lock(&mutex_);
  if (std::shared_ptr<Loader> known = Known(name)) return known;
  if (loaders_.size() >= kMostLoaded) {
    evicted = std::move(loaders_.front().second);
    loaders_.erase(loaders_.begin());
  }
  loaders_.emplace_back(name, std::make_shared<Loader>(library_, options_.cache, name));
  return loaders_.back().second;
}

void Viewer::Forget(const std::shared_ptr<Loader>& loader) {
  MutexLock lock(&mutex_);
  std::erase_if(loaders_, [&](const auto& known) { return known.second == loader; });
}

absl::StatusOr<Viewer::Run> Viewer::Loaded(const std::shared_ptr<Loader>& loader, Nanos wait) {
  absl::StatusOr<Run> run = loader->Get(wait);
  // Whoever asks again may have cured what was wrong.
  if (!run.ok()) Forget(loader);
  return run;
}

absl::StatusOr<Page> Viewer::AskRun(const std::shared_ptr<Loader>& loader, RunApi api,
                                    const Query& query, Nanos wait) {
  ASSIGN_OR_RETURN(const Run run, Loaded(loader, wait));
  if (run == nullptr) return absl::UnavailableError("the run is being read; ask again");
  absl::StatusOr<Page> page = api(*run, query);
  if (absl::Status changed = run->Check(); !changed.ok()) {
    Forget(loader);
    return changed;
  }
  return page;
}

bool Viewer::IsSlow(const Request& request) {
  return request.path == kXprofData || request.path == kXprofHosts;
}

absl::StatusOr<Page> Viewer::Runs(const Query&) {
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, library_.Runs());
  return JsonPage(Json{{"place", library_.place()}, {"runs", runs}});
}

absl::StatusOr<Page> Viewer::Describe(const Query& query) {
  // As long as a page may wait without asking again.
  constexpr Nanos kMoment = std::chrono::milliseconds(100);
  ASSIGN_OR_RETURN(const std::shared_ptr<Loader> loader, LoaderOf(query));
  ASSIGN_OR_RETURN(const Run run, Loaded(loader, kMoment));
  if (run != nullptr) return AskRun(loader, &DescribePage, query, Nanos{0});
  return JsonPage(Json{{"loading", true},
                       {"done", loader->progress().done.load()},
                       {"total", loader->progress().total.load()}});
}

absl::StatusOr<Page> Viewer::XprofRuns(const Query&) {
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, library_.Runs());
  return JsonPage(Json(runs));
}

absl::StatusOr<Page> Viewer::XprofTools(const Query&) {
  return JsonPage(Json::array({"trace_viewer@"}));
}

}  // namespace strobe::viewer
