#include "viewer/router.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "common/base/guard.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "viewer/api/catalog_api.h"
#include "viewer/api/request_cost.h"
#include "viewer/api/run_files.h"
#include "viewer/assets.h"
#include "viewer/page_policy.h"
#include "viewer/report/reports.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

// Runs that the timeline's page offers for choice; the list of runs has all.
constexpr std::size_t kMaxChoices = 1000;
// Our page shows progress while a run is read, so that its requests return soon and are repeated.
constexpr Nanos kPageWait = std::chrono::milliseconds(100);
// XProf's page asks once.
constexpr Nanos kXprofWait = std::chrono::seconds(60);

// The room on the disk for answers that are being sent: a part of the cache's bytes, or as much
// beside a cache in memory. Perfetto's traces are the longest, with up to 2 GiB.
constexpr std::uint64_t kMaxScratchBytes = std::uint64_t{4} << 30;

Scratch MakeScratch(const RouterOptions& options) {
  const std::uint64_t all = std::min(options.cache.max_bytes / 2, kMaxScratchBytes);
  return {.folder = options.cache.directory,
          .shares = std::make_shared<fair::ByteShares>(
              fair::ByteShares::Limits{.all = all, .each = options.many_askers ? all / 2 : all})};
}

// Leaves the room for answers out of the cache's.
RouterOptions WithoutScratch(RouterOptions options) {
  options.cache.max_bytes -= std::min(options.cache.max_bytes / 2, kMaxScratchBytes);
  return options;
}

http::Page ErrorPage(const absl::Status& status) {
  int code = 500;
  if (absl::IsInvalidArgument(status)) code = 400;
  if (absl::IsNotFound(status)) code = 404;
  if (absl::IsAborted(status)) code = 409;
  if (absl::IsUnavailable(status)) code = 503;
  return {.status = code, .body = MessageOf(status) + "\n"};
}

absl::StatusOr<http::Page> AssetPage(std::string_view path) {
  for (const Asset& asset : Assets()) {
    if (asset.path == path)
      return http::Page{.body = std::string(asset.body),
                        .content_type = std::string(asset.content_type),
                        .compress = true};
  }
  return absl::NotFoundError("no such page");
}

// Whether the page begins with the list of runs, of which there are `runs`.
bool OpensList(const Library& library, std::size_t runs) {
  return library.has_catalog() && !library.names_a_run() && (runs > 1 || library.always_lists());
}

}  // namespace

// A path and what answers it. The type of the handler says from what: from the library, from a run
// that is open, or from a run's objects.
struct Router::Route {
  enum class Slow : std::uint8_t {
    kShort,   // It is short, unless it has to wait for a store.
    kByCost,  // It is judged by CostOf whether it is heavy.
    kHeavy,
    kWaits,
  };
  // Whether the answer may wait for the store, of a run that is in one.
  enum class AsksStore : std::uint8_t {
    kNever,
    kUntilOpen,  // It reads indexes, which are on this machine once the run is open.
    kForTexts,   // Like kUntilOpen, but it reads the traces if the query searches in texts.
    kYes,
  };

  std::string_view path{};
  std::variant<LibraryApi, RunApi*, FileApi*> handler{};
  Slow slow = Slow::kShort;
  AsksStore store = AsksStore::kNever;
  // How long it waits for a run that is being read: XProf's page asks once.
  Nanos wait{};
};

const Router::Route* Router::FindRoute(std::string_view path) {
  using Slow = Route::Slow;
  using AsksStore = Route::AsksStore;
  static constexpr Route kRoutes[] = {
      {.path = "/api/runs", .handler = &Router::Runs},
      {.path = "/api/run", .handler = &Router::Describe, .store = AsksStore::kYes},
      {.path = "/api/report",
       .handler = &Router::Report,
       .slow = Slow::kHeavy,
       .store = AsksStore::kYes},
      {.path = "/api/catalog", .handler = &Router::Catalog},
      {.path = "/api/activity",
       .handler = &ActivityPage,
       .slow = Slow::kByCost,
       .store = AsksStore::kUntilOpen},
      {.path = "/api/arrows",
       .handler = &ArrowsPage,
       .slow = Slow::kByCost,
       .store = AsksStore::kUntilOpen},
      {.path = "/api/event",
       .handler = &EventPage,
       .slow = Slow::kByCost,
       .store = AsksStore::kYes},
      {.path = "/api/events",
       .handler = &EventsPage,
       .slow = Slow::kByCost,
       .store = AsksStore::kUntilOpen},
      {.path = "/api/find",
       .handler = &FindPage,
       .slow = Slow::kByCost,
       .store = AsksStore::kForTexts},
      {.path = "/api/graph",
       .handler = &GraphPage,
       .slow = Slow::kByCost,
       .store = AsksStore::kYes},
      {.path = "/api/kinds",
       .handler = &KindsPage,
       .slow = Slow::kByCost,
       .store = AsksStore::kUntilOpen},
      {.path = "/api/select",
       .handler = &SelectPage,
       .slow = Slow::kByCost,
       .store = AsksStore::kUntilOpen},
      {.path = "/api/steps",
       .handler = &StepsPage,
       .slow = Slow::kByCost,
       .store = AsksStore::kUntilOpen},
      {.path = "/api/table", .handler = &TablePage, .slow = Slow::kHeavy, .store = AsksStore::kYes},
      {.path = "/api/tiles",
       .handler = &TilesPage,
       .slow = Slow::kByCost,
       .store = AsksStore::kUntilOpen},
      {.path = "/api/manifest",
       .handler = &ManifestPage,
       .slow = Slow::kHeavy,
       .store = AsksStore::kYes},
      {.path = "/api/file", .handler = &FilePage, .slow = Slow::kWaits, .store = AsksStore::kYes},
      {.path = "/api/perfetto",
       .handler = &PerfettoPage,
       .slow = Slow::kHeavy,
       .store = AsksStore::kYes},
      {.path = "/data/plugin/profile/runs", .handler = &Router::XprofRuns},
      {.path = "/data/plugin/profile/run_tools", .handler = &Router::XprofTools},
      {.path = "/data/plugin/profile/hosts",
       .handler = &XprofHostsPage,
       .slow = Slow::kHeavy,
       .store = AsksStore::kYes,
       .wait = kXprofWait},
      {.path = "/data/plugin/profile/data",
       .handler = &XprofDataPage,
       .slow = Slow::kHeavy,
       .store = AsksStore::kYes,
       .wait = kXprofWait},
  };
  const auto* route = std::ranges::find(kRoutes, path, &Route::path);
  return route == std::end(kRoutes) ? nullptr : route;
}

Router::Router(Library& library, RouterOptions options)
    : library_(library),
      scratch_(MakeScratch(options)),
      options_(WithoutScratch(std::move(options))),
      reports_(options_.max_open, options_.clock),
      runs_(library,
            {.cache = options_.cache, .max_open = options_.max_open, .clock = options_.clock}) {}

http::Page Router::Answer(const http::Request& request, const catalog::Visible& visible) {
  http::Page page;
  if (!IsAllowedHost(request.host, options_.hosts)) {
    page = {.status = 403,
            .body =
                "this server does not answer to that name; open it as localhost, or allow the "
                "name with --allow-host\n"};
  } else if (IsAskedFromElsewhere(request)) {
    page = {.status = 403, .body = "pages of other sites get no data here\n"};
  } else {
    absl::StatusOr<http::Page> answer = RunGuarded("viewer", [&] {
      return Dispatch({request, http::Query(request.query), visible});
    });
    page = answer.ok() ? *std::move(answer) : ErrorPage(answer.status());
    runs_.FreeEvicted();
  }
  AddPolicy(page);
  return page;
}

AnswerMeans Router::MeansOf(const Question& question) const {
  const http::Request& request = question.request;
  return {.is_gone = request.is_gone,
          .scratch = scratch_,
          .asker = request.asker,
          .takes_gzip = request.takes_gzip};
}

absl::StatusOr<http::Page> Router::Dispatch(const Question& question) {
  const Route* route = FindRoute(question.request.path);
  if (route == nullptr) return AssetPage(question.request.path);
  if (const LibraryApi* api = std::get_if<LibraryApi>(&route->handler))
    return (this->*(*api))(question);
  if (RunApi* const* api = std::get_if<RunApi*>(&route->handler))
    return AskRun(*api, *route, question);
  ASSIGN_OR_RETURN(const std::string run, RunOf(question));
  FileApi* const api = std::get<FileApi*>(route->handler);
  return api(library_, run, question.request, MeansOf(question));
}

bool Router::MaySee(const std::string& run, const catalog::Visible& visible) const {
  return visible.all || visible.Has(library_.LogdirOf(run));
}

absl::StatusOr<std::vector<std::string>> Router::VisibleRuns(const catalog::Visible& visible,
                                                             std::size_t most) {
  // Nothing is listed for an asker who may see nothing.
  if (!visible.all && visible.logdirs.empty()) return std::vector<std::string>{};
  return library_.Runs(visible, most);
}

absl::StatusOr<std::string> Router::RunOf(const Question& question) {
  const catalog::Visible& visible = question.visible;
  const std::string& name = question.query.Text("run");
  if (name.empty()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> runs, VisibleRuns(visible, 1));
    if (!runs.empty()) return runs.front();
    return absl::NotFoundError(
        visible.all ? StrCat(library_.location(), " has no runs; strobe capture makes one")
                    : "there are no runs");
  }
  if (!MaySee(name, visible))
    return absl::NotFoundError(StrCat("there is no run ", name.substr(0, 200)));
  if (runs_.Touch(name, question.asker())) return name;
  // Asks the store only if the run is not open, because that costs a request.
  RETURN_IF_ERROR(library_.Find(name));
  return name;
}

absl::StatusOr<http::Page> Router::AskRun(RunApi* api, const Route& route,
                                          const Question& question) {
  const auto& [request, query, visible] = question;
  ASSIGN_OR_RETURN(const std::string name, RunOf(question));
  const bool begins = route.wait > Nanos{0} && BeginsXprofPage(query);
  ASSIGN_OR_RETURN(const OpenRun open, begins ? runs_.OpenFresh(name, route.wait, request.asker)
                                              : runs_.Open(name, route.wait, request.asker));
  if (open.run == nullptr) return absl::UnavailableError("the run is being read; ask again");
  if (const std::string& version = query.Text("version");
      !version.empty() && version != open.run->version)
    return absl::AbortedError(
        "the run has other traces than when this page opened it; reload the page");
  ASSIGN_OR_RETURN(const std::shared_ptr<const LoadedRun> run,
                   AlignmentOf(open.run, query, request.is_gone));
  return Checked(open, api(*run, query, MeansOf(question)));
}

absl::StatusOr<http::Page> Router::Checked(const OpenRun& open, absl::StatusOr<http::Page> page) {
  RETURN_IF_ERROR(runs_.Check(open));
  return page;
}

std::shared_ptr<const LoadedRun> Router::VisibleOpenRun(const http::Query& query,
                                                        const catalog::Visible& visible) const {
  const std::string& name = query.Text("run");
  if (!name.empty() && !MaySee(name, visible)) return nullptr;
  return runs_.Find(name);
}

http::Load Router::LoadOf(const http::Request& request, const catalog::Visible* visible) const {
  using http::Load;
  const Route* route = FindRoute(request.path);
  if (route == nullptr) return Load::kShort;
  if (route->slow == Route::Slow::kWaits) return Load::kWaits;
  if (route->slow == Route::Slow::kHeavy) return Load::kHeavy;
  const http::Query query(request.query);
  // The traces are read once for each alignment.
  if (route->path == "/api/run" && !query.Text("align").empty()) return Load::kHeavy;
  if (route->slow == Route::Slow::kByCost) {
    const std::shared_ptr<const LoadedRun> run =
        visible == nullptr ? nullptr : VisibleOpenRun(query, *visible);
    if (CostOf(request.path, query, run.get()) > kShortCost) return Load::kHeavy;
  }
  return MayAskStore(*route, query) ? Load::kWaits : Load::kShort;
}

bool Router::MayAskStore(const http::Request& request) const {
  const Route* route = FindRoute(request.path);
  return route != nullptr && MayAskStore(*route, http::Query(request.query));
}

bool Router::MayAskStore(const Route& route, const http::Query& query) const {
  using AsksStore = Route::AsksStore;
  if (route.store == AsksStore::kNever) return false;
  const std::string& name = query.Text("run");
  const std::string logdir = name.empty() ? library_.location() : library_.LogdirOf(name);
  if (logdir.find("://") == std::string::npos || logdir.starts_with("file://")) return false;
  if (route.store == AsksStore::kYes) return true;
  if (route.store == AsksStore::kForTexts && query.Text("in") == "texts") return true;
  return !runs_.IsServed(name);
}

absl::StatusOr<http::Page> Router::Runs(const Question& question) {
  const catalog::Visible& visible = question.visible;
  ASSIGN_OR_RETURN(std::vector<std::string> runs, VisibleRuns(visible, kMaxChoices + 1));
  const bool list = OpensList(library_, runs.size());
  const bool more = runs.size() > kMaxChoices;
  if (more) runs.resize(kMaxChoices);
  return JsonPage(Json{{"place", visible.all ? library_.location() : ""},
                       {"runs", std::move(runs)},
                       {"more", more},
                       {"hasList", library_.has_catalog()},
                       {"opensList", list},
                       {"perfetto", options_.perfetto},
                       {"xprof", options_.xprof}});
}

absl::StatusOr<http::Page> Router::Describe(const Question& question) {
  // The page asks before it knows with what it begins; no run is read for a list.
  if (question.query.Text("or") == "list" && question.query.Text("run").empty()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> runs, VisibleRuns(question.visible, 2));
    if (OpensList(library_, runs.size())) return JsonPage(Json{{"opensList", true}});
  }
  ASSIGN_OR_RETURN(const std::string name, RunOf(question));
  ASSIGN_OR_RETURN(const OpenRun open, runs_.OpenFresh(name, kPageWait, question.asker()));
  if (open.run != nullptr) {
    ASSIGN_OR_RETURN(const std::shared_ptr<const LoadedRun> run,
                     AlignmentOf(open.run, question.query, question.request.is_gone));
    return Checked(open, DescriptionPage(*run));
  }
  static const Progress kNotBegun;
  const Progress& progress = open.loader != nullptr ? open.loader->progress() : kNotBegun;
  return JsonPage(
      Json{{"loading", true}, {"done", progress.done.load()}, {"total", progress.total.load()}});
}

absl::StatusOr<http::Page> Router::Report(const Question& question) {
  ASSIGN_OR_RETURN(const Making making, MakingOf(question.query.Text("make")));
  ASSIGN_OR_RETURN(const std::string name, RunOf(question));
  StoredReport stored;
  // The store is not asked again while a page waits for the report that it did not have.
  const std::optional<std::string> problem = reports_.ProblemOf(name);
  if (making == Making::kNever || !problem)
    stored = ReadStoredReport(library_, name);
  else
    stored.problem = *problem;
  if (making == Making::kNever || !stored.report.is_null() || !stored.evidence.is_null())
    return StoredReportPage(name, stored);
  ASSIGN_OR_RETURN(const OpenRun open, problem
                                           ? runs_.Open(name, kPageWait, question.asker())
                                           : runs_.OpenFresh(name, kPageWait, question.asker()));
  if (open.run == nullptr) {
    reports_.NoteProblem(name, stored.problem);
    return LoadingReportPage(name, stored);
  }
  return Checked(open, reports_.Answer(name, open.run, making, stored, question.asker()));
}

absl::StatusOr<http::Page> Router::Catalog(const Question& question) {
  return CatalogPage(library_, question.query, question.visible);
}

absl::StatusOr<http::Page> Router::XprofRuns(const Question& question) {
  const catalog::Visible& visible = question.visible;
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, VisibleRuns(visible, kAllRuns));
  return JsonPage(Json(runs));
}

absl::StatusOr<http::Page> Router::XprofTools(const Question&) {
  return JsonPage(Json::array({"trace_viewer@"}));
}

}  // namespace strobe::viewer
