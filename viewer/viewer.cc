#include "viewer/viewer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/guard.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "viewer/api/catalog_api.h"
#include "viewer/api/request_cost.h"
#include "viewer/api/run_files.h"
#include "viewer/assets.h"
#include "viewer/page_policy.h"
#include "viewer/report/stored_report.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

// Runs that the timeline's page offers for choice; the list of runs has all.
constexpr std::size_t kMaxChoices = 1000;
// Our page shows progress while a run is read, so that its requests return soon and are repeated.
constexpr Nanos kPageWait = std::chrono::milliseconds(100);
// XProf's page asks once.
constexpr Nanos kXprofWait = std::chrono::seconds(60);
// A run that is being read is given up for another one if nobody has asked for it for this long.
constexpr Nanos kPatience = std::chrono::seconds(5);
// A run that is open is not compared with its files more often, however many pages open it.
constexpr Nanos kFresh = std::chrono::seconds(2);

// The room on the disk for answers that are being sent: a part of the cache's bytes, or as much
// beside a cache in memory. Perfetto's traces are the longest, with up to 2 GiB.
constexpr std::uint64_t kMaxScratchBytes = std::uint64_t{4} << 30;

Scratch MakeScratch(const ViewerOptions& options) {
  const std::uint64_t all = std::min(options.cache.max_bytes / 2, kMaxScratchBytes);
  return {.folder = options.cache.directory,
          .shares = std::make_shared<ByteShares>(
              ByteShares::Limits{.all = all, .each = options.many_askers ? all / 2 : all})};
}

// Leaves the room for answers out of the cache's.
ViewerOptions WithoutScratch(ViewerOptions options) {
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

}  // namespace

Viewer::Viewer(Library& library, ViewerOptions options)
    : library_(library),
      scratch_(MakeScratch(options)),
      options_(WithoutScratch(std::move(options))),
      reports_(options_.max_open, options_.clock) {}

http::Page Viewer::Answer(const http::Request& request, const catalog::Visible& visible) {
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
      return Route({request, http::Query(request.query), visible});
    });
    page = answer.ok() ? *std::move(answer) : ErrorPage(answer.status());
    FreeEvicted();
  }
  AddPolicy(page);
  return page;
}

absl::StatusOr<http::Page> Viewer::Route(const Question& question) {
  using LibraryApi = absl::StatusOr<http::Page> (Viewer::*)(const Question&);
  static const std::map<std::string_view, LibraryApi> kLibraryApis = {
      {"/api/runs", &Viewer::Runs},
      {"/api/run", &Viewer::Describe},
      {"/api/report", &Viewer::Report},
      {"/api/catalog", &Viewer::Catalog},
      {"/data/plugin/profile/runs", &Viewer::XprofRuns},
      {"/data/plugin/profile/run_tools", &Viewer::XprofTools},
  };
  const http::Request& request = question.request;
  if (const auto api = kLibraryApis.find(request.path); api != kLibraryApis.end())
    return (this->*api->second)(question);
  if (const RunApi api = FindRunApi(request.path)) return AskRun(api, question, Nanos{0});
  if (const RunApi api = FindXprofApi(request.path)) return AskRun(api, question, kXprofWait);
  if (const FileApi api = FindFileApi(request.path)) {
    ASSIGN_OR_RETURN(const std::string run, RunOf(question));
    return api(library_, run, request,
               {request.is_gone, scratch_, request.asker, request.takes_gzip});
  }
  for (const Asset& asset : Assets()) {
    if (asset.path == request.path)
      return http::Page{.body = std::string(asset.body),
                        .content_type = std::string(asset.content_type),
                        .compress = true};
  }
  return absl::NotFoundError("no such page");
}

std::shared_ptr<Loader> Viewer::FindLoader(const std::string& run, const std::string& asker) {
  const auto known = std::find_if(opened_.begin(), opened_.end(),
                                  [&](const Opened& opened) { return opened.run == run; });
  if (known == opened_.end()) return nullptr;
  known->asked_at = options_.clock->MonoNow();
  known->askers.Note(asker);
  std::rotate(known, known + 1, opened_.end());
  return opened_.back().loader;
}

bool Viewer::MaySee(const std::string& run, const catalog::Visible& visible) const {
  return visible.all || visible.Has(library_.LogdirOf(run));
}

absl::StatusOr<std::vector<std::string>> Viewer::VisibleRuns(const catalog::Visible& visible,
                                                             std::size_t most) {
  // Nothing is listed for an asker who may see nothing.
  if (!visible.all && visible.logdirs.empty()) return std::vector<std::string>{};
  return library_.Runs(visible, most);
}

absl::StatusOr<std::string> Viewer::RunOf(const Question& question) {
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
  {
    MutexLock lock(&mutex_);
    if (FindLoader(name, question.asker()) != nullptr) return name;
  }
  // Asks the store only if the run is not open, because that costs a request.
  RETURN_IF_ERROR(library_.Find(name));
  return name;
}

std::vector<std::shared_ptr<Loader>> Viewer::TakeEnded() {
  for (const std::shared_ptr<Loader>& loader : evicted_)
    if (loader.use_count() == 1) loader->Stop();
  const auto ended =
      std::partition(evicted_.begin(), evicted_.end(),
                     [](const std::shared_ptr<Loader>& loader) { return !loader->has_ended(); });
  std::vector<std::shared_ptr<Loader>> taken(std::make_move_iterator(ended),
                                             std::make_move_iterator(evicted_.end()));
  evicted_.erase(ended, evicted_.end());
  return taken;
}

void Viewer::FreeEvicted() {
  std::vector<std::shared_ptr<Loader>> ended;  // Destroyed after the lock, as in TryLoaderOf.
  MutexLock lock(&mutex_);
  ended = TakeEnded();
}

std::shared_ptr<Loader> Viewer::TryLoaderOf(const std::string& run, const std::string& asker) {
  // Declared before the lock, so that they are destroyed after it: that may unmap large files.
  std::vector<std::shared_ptr<Loader>> ended;
  MutexLock lock(&mutex_);
  if (std::shared_ptr<Loader> known = FindLoader(run, asker)) return known;
  const MonoTime now = options_.clock->MonoNow();
  if (opened_.size() >= options_.max_open) {
    const auto place = ChooseEvicted(opened_, asker, [&](const Opened& opened) {
      return opened.served || now - opened.asked_at > kPatience;
    });
    if (place == opened_.end()) return nullptr;
    evicted_.push_back(std::move(place->loader));
    opened_.erase(place);
  }
  ended = TakeEnded();
  if (evicted_.size() > options_.max_open) return nullptr;
  opened_.push_back({run, {}, std::make_shared<Loader>(library_, options_.cache, run), now, now});
  opened_.back().askers.Note(asker);
  return opened_.back().loader;
}

std::shared_ptr<Loader> Viewer::LoaderOf(const std::string& run, Nanos wait,
                                         const std::string& asker) {
  std::shared_ptr<Loader> loader = TryLoaderOf(run, asker);
  for (; loader == nullptr && wait > Nanos{0}; wait -= kPageWait) {
    std::this_thread::sleep_for(std::min(wait, kPageWait));
    loader = TryLoaderOf(run, asker);
  }
  return loader;
}

void Viewer::NoteGiven(const std::shared_ptr<Loader>& loader) {
  MutexLock lock(&mutex_);
  for (Opened& opened : opened_)
    if (opened.loader == loader) opened.served = true;
}

bool Viewer::IsStale(const std::string& run, const std::shared_ptr<Loader>& loader) {
  {
    MutexLock lock(&mutex_);
    const auto opened = std::ranges::find(opened_, loader, &Opened::loader);
    const MonoTime now = options_.clock->MonoNow();
    if (opened == opened_.end() || now - opened->checked < kFresh) return false;
    opened->checked = now;
  }
  // Without a stamp from before it was read, nobody knows, so that it is read again.
  const std::optional<std::string> before = loader->stamp();
  if (before == "") return false;
  // A store that does not answer keeps nobody from what is open.
  const absl::StatusOr<std::string> now = library_.StampOf(run);
  return now.ok() && *now != before;
}

void Viewer::Forget(const std::shared_ptr<Loader>& loader) {
  MutexLock lock(&mutex_);
  std::erase_if(opened_, [&](const Opened& opened) { return opened.loader == loader; });
}

absl::StatusOr<Viewer::Run> Viewer::Loaded(const std::shared_ptr<Loader>& loader, Nanos wait) {
  if (loader == nullptr) return Run{};
  absl::StatusOr<Run> run = loader->Get(wait);
  if (!run.ok())
    Forget(loader);  // The next request tries again: the cause may have been removed by then.
  else if (*run != nullptr)
    NoteGiven(loader);
  return run;
}

bool Viewer::EvictOne(const std::string& asker) {
  std::vector<std::shared_ptr<Loader>> ended;  // Destroyed after the lock, as in TryLoaderOf.
  MutexLock lock(&mutex_);
  const auto place =
      ChooseEvicted(opened_, asker, [](const Opened& opened) { return opened.served; });
  if (place == opened_.end()) return false;
  evicted_.push_back(std::move(place->loader));
  opened_.erase(place);
  ended = TakeEnded();
  return true;
}

absl::StatusOr<Viewer::Current> Viewer::Open(const std::string& name, Nanos wait,
                                             const std::string& asker) {
  Current current{LoaderOf(name, wait, asker), nullptr};
  absl::StatusOr<Run> run = Loaded(current.loader, wait);
  // Mappings and open files are bounded for the whole process, and other runs may have them.
  while (absl::IsResourceExhausted(run.status()) && EvictOne(asker)) {
    current.loader = LoaderOf(name, wait, asker);
    run = Loaded(current.loader, wait);
  }
  if (absl::IsResourceExhausted(run.status()))
    return absl::ResourceExhaustedError(ToAbsl(
        StrCat(MessageOf(run.status()),
               "; try again when fewer runs are being read, or copy the run with strobe cp and "
               "open the copy with strobe view")));
  ASSIGN_OR_RETURN(current.run, std::move(run));
  return current;
}

absl::StatusOr<Viewer::Current> Viewer::OpenFresh(const std::string& name, Nanos wait,
                                                  const std::string& asker) {
  ASSIGN_OR_RETURN(Current current, Open(name, wait, asker));
  if (current.run == nullptr || !IsStale(name, current.loader)) return current;
  Forget(current.loader);
  current = {};  // Freed before the run is read again.
  return Open(name, wait, asker);
}

absl::StatusOr<http::Page> Viewer::AskRun(RunApi api, const Question& question, Nanos wait) {
  const auto& [request, query, visible] = question;
  ASSIGN_OR_RETURN(const std::string name, RunOf(question));
  const bool begins = BeginsXprofPage(request.path, query);
  ASSIGN_OR_RETURN(const Current current, begins ? OpenFresh(name, wait, question.asker())
                                                 : Open(name, wait, question.asker()));
  const auto& [loader, run] = current;
  if (run == nullptr) return absl::UnavailableError("the run is being read; ask again");
  if (const std::string& version = query.Text("version");
      !version.empty() && version != run->version)
    return absl::AbortedError(
        "the run has other traces than when this page opened it; reload the page");
  return Checked(*run, loader,
                 api(*run, query, {request.is_gone, scratch_, request.asker, request.takes_gzip}));
}

absl::StatusOr<http::Page> Viewer::Checked(const LoadedRun& run,
                                           const std::shared_ptr<Loader>& loader,
                                           absl::StatusOr<http::Page> page) {
  if (absl::Status changed = run.Check(); !changed.ok()) {
    Forget(loader);
    return changed;
  }
  return page;
}

Viewer::Run Viewer::OpenedRun(const http::Query& query, const catalog::Visible& visible) const {
  const std::string& name = query.Text("run");
  if (!name.empty() && !MaySee(name, visible)) return nullptr;
  std::shared_ptr<Loader> loader;
  {
    MutexLock lock(&mutex_);
    const auto opened = std::ranges::find(opened_, name, &Opened::run);
    if (opened == opened_.end()) return nullptr;
    loader = opened->loader;
  }
  return loader->Get(Nanos{0}).value_or(nullptr);
}

http::Load Viewer::LoadOf(const http::Request& request, const catalog::Visible* visible) const {
  using http::Load;
  const std::string& path = request.path;
  if (path == "/api/file") return Load::kWaits;
  if (path == "/api/report" || FindXprofApi(path) || FindFileApi(path)) return Load::kHeavy;
  if (FindRunApi(path)) {
    const http::Query query(request.query);
    const Run run = visible == nullptr ? nullptr : OpenedRun(query, *visible);
    if (CostOf(path, query, run.get()) > kShortCost) return Load::kHeavy;
  }
  return MayAskStore(request) ? Load::kWaits : Load::kShort;
}

bool Viewer::MayAskStore(const http::Request& request) const {
  const bool opens = request.path == "/api/run";
  if (!opens && FindRunApi(request.path) == nullptr) return false;
  const http::Query query(request.query);
  const std::string& name = query.Text("run");
  const std::string logdir = name.empty() ? library_.location() : library_.LogdirOf(name);
  if (logdir.find("://") == std::string::npos || logdir.starts_with("file://")) return false;
  const bool reads_traces = request.path == "/api/event" || request.path == "/api/graph" ||
                            (request.path == "/api/find" && query.Text("in") == "texts");
  MutexLock lock(&mutex_);
  const bool is_open = std::ranges::any_of(
      opened_, [&](const Opened& opened) { return opened.run == name && opened.served; });
  return opens || reads_traces || !is_open;
}

absl::StatusOr<http::Page> Viewer::Runs(const Question& question) {
  const catalog::Visible& visible = question.visible;
  ASSIGN_OR_RETURN(std::vector<std::string> runs, VisibleRuns(visible, kMaxChoices + 1));
  const bool list = library_.has_catalog() && !library_.names_a_run() &&
                    (runs.size() > 1 || library_.always_lists());
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

absl::StatusOr<http::Page> Viewer::Describe(const Question& question) {
  ASSIGN_OR_RETURN(const std::string name, RunOf(question));
  ASSIGN_OR_RETURN(const Current current, OpenFresh(name, kPageWait, question.asker()));
  const auto& [loader, run] = current;
  if (run != nullptr) return Checked(*run, loader, DescriptionPage(*run));
  static const Progress kNotBegun;
  const Progress& progress = loader != nullptr ? loader->progress() : kNotBegun;
  return JsonPage(
      Json{{"loading", true}, {"done", progress.done.load()}, {"total", progress.total.load()}});
}

absl::StatusOr<http::Page> Viewer::Report(const Question& question) {
  ASSIGN_OR_RETURN(const Making making, MakingOf(question.query.Text("make")));
  ASSIGN_OR_RETURN(const std::string name, RunOf(question));
  StoredReport stored;
  // The store is not asked again while a page waits for the report that it did not have.
  const std::optional<std::string> problem = reports_.ProblemOf(name);
  if (making == Making::kNever || !problem)
    stored = ReadStoredReport(library_, name);
  else
    stored.problem = *problem;
  if (making == Making::kNever || !stored.report.is_null()) return StoredReportPage(name, stored);
  ASSIGN_OR_RETURN(const Current current, problem ? Open(name, kPageWait, question.asker())
                                                  : OpenFresh(name, kPageWait, question.asker()));
  const auto& [loader, run] = current;
  if (run == nullptr) {
    reports_.NoteProblem(name, stored.problem);
    return LoadingReportPage(name, stored);
  }
  return Checked(*run, loader, reports_.Answer(name, run, making, stored, question.asker()));
}

absl::StatusOr<http::Page> Viewer::Catalog(const Question& question) {
  return CatalogPage(library_, question.query, question.visible);
}

absl::StatusOr<http::Page> Viewer::XprofRuns(const Question& question) {
  const catalog::Visible& visible = question.visible;
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, VisibleRuns(visible, kAllRuns));
  return JsonPage(Json(runs));
}

absl::StatusOr<http::Page> Viewer::XprofTools(const Question&) {
  return JsonPage(Json::array({"trace_viewer@"}));
}

}  // namespace strobe::viewer
