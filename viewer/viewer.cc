#include "viewer/viewer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "viewer/assets.h"
#include "viewer/page_policy.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

// Our page shows progress while a run is read, so that its requests return soon and are repeated.
constexpr Nanos kPageWait = std::chrono::milliseconds(100);
// XProf's page asks once.
constexpr Nanos kXprofWait = std::chrono::seconds(60);

Page ErrorPage(const absl::Status& status) {
  int code = 500;
  if (absl::IsInvalidArgument(status)) code = 400;
  if (absl::IsNotFound(status)) code = 404;
  if (absl::IsUnavailable(status)) code = 503;
  return {.status = code, .body = MessageOf(status) + "\n"};
}

}  // namespace

Page Viewer::Answer(const Request& request, const SharedLibrary& library) {
  Page page;
  if (!IsAllowedHost(request.host, options_.hosts)) {
    page = {.status = 403,
            .body =
                "this server does not answer to that name; open it as localhost, or allow the "
                "name with --allow-host\n"};
  } else {
    absl::StatusOr<Page> answer = Route(request, library);
    page = answer.ok() ? *std::move(answer) : ErrorPage(answer.status());
  }
  AddPolicy(page);
  return page;
}

absl::StatusOr<Page> Viewer::Route(const Request& request, const SharedLibrary& library) {
  using LibraryApi = absl::StatusOr<Page> (Viewer::*)(const SharedLibrary&, const Query&);
  static const std::map<std::string_view, LibraryApi> kLibraryApis = {
      {"/api/runs", &Viewer::Runs},
      {"/api/run", &Viewer::Describe},
      {"/data/plugin/profile/runs", &Viewer::XprofRuns},
      {"/data/plugin/profile/run_tools", &Viewer::XprofTools},
  };
  const Query query(request.query);
  if (const auto api = kLibraryApis.find(request.path); api != kLibraryApis.end())
    return (this->*api->second)(library, query);
  if (const RunApi api = FindRunApi(request.path)) return AskRun(api, library, query, Nanos{0});
  if (const RunApi api = FindXprofApi(request.path)) return AskRun(api, library, query, kXprofWait);
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

absl::StatusOr<std::shared_ptr<Loader>> Viewer::LoaderOf(const SharedLibrary& library,
                                                         const Query& query) {
  std::string name = query.Text("run");
  // Before anything else: others may have opened runs that are not in this library.
  const auto no_such_run = [&name] {
    return absl::NotFoundError(StrCat("there is no run ", name.substr(0, 200)));
  };
  if (!name.empty() && !library->MayHold(name)) return no_such_run();
  {
    MutexLock lock(&mutex_);
    if (std::shared_ptr<Loader> known = Known(name)) return known;
  }
  // Listed only for runs that are not open, because listing a bucket costs a request.
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, library->Runs());
  if (runs.empty())
    return absl::NotFoundError(StrCat(library->place(), " has no runs; strobe capture makes one"));
  if (name.empty()) name = runs.front();
  if (std::find(runs.begin(), runs.end(), name) == runs.end()) return no_such_run();
  // Declared before the lock, so that it is destroyed after it: its destructor waits for a thread.
  std::shared_ptr<Loader> evicted;
  MutexLock lock(&mutex_);
  if (std::shared_ptr<Loader> known = Known(name)) return known;
  if (loaders_.size() >= options_.max_open) {
    evicted = std::move(loaders_.front().second);
    loaders_.erase(loaders_.begin());
  }
  loaders_.emplace_back(name, std::make_shared<Loader>(library, options_.cache, name));
  return loaders_.back().second;
}

void Viewer::Forget(const std::shared_ptr<Loader>& loader) {
  MutexLock lock(&mutex_);
  std::erase_if(loaders_, [&](const auto& known) { return known.second == loader; });
}

absl::StatusOr<Viewer::Run> Viewer::Loaded(const std::shared_ptr<Loader>& loader, Nanos wait) {
  absl::StatusOr<Run> run = loader->Get(wait);
  // The next request tries again: the cause may have been removed by then.
  if (!run.ok()) Forget(loader);
  return run;
}

absl::StatusOr<Page> Viewer::AskRun(RunApi api, const SharedLibrary& library, const Query& query,
                                    Nanos wait) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Loader> loader, LoaderOf(library, query));
  ASSIGN_OR_RETURN(const Run run, Loaded(loader, wait));
  if (run == nullptr) return absl::UnavailableError("the run is being read; ask again");
  return Checked(*run, loader, api(*run, query));
}

absl::StatusOr<Page> Viewer::Checked(const LoadedRun& run, const std::shared_ptr<Loader>& loader,
                                     absl::StatusOr<Page> page) {
  if (absl::Status changed = run.Check(); !changed.ok()) {
    Forget(loader);
    return changed;
  }
  return page;
}

bool Viewer::IsSlow(const Request& request) {
  if (FindXprofApi(request.path) != nullptr) return true;
  return request.path == "/api/find" && Query(request.query).Text("in") == "all";
}

absl::StatusOr<Page> Viewer::Runs(const SharedLibrary& library, const Query&) {
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, library->Runs());
  return JsonPage(Json{{"place", library->place()}, {"runs", runs}, {"xprof", options_.xprof}});
}

absl::StatusOr<Page> Viewer::Describe(const SharedLibrary& library, const Query& query) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Loader> loader, LoaderOf(library, query));
  ASSIGN_OR_RETURN(const Run run, Loaded(loader, kPageWait));
  if (run != nullptr) return Checked(*run, loader, DescriptionPage(*run));
  return JsonPage(Json{{"loading", true},
                       {"done", loader->progress().done.load()},
                       {"total", loader->progress().total.load()}});
}

absl::StatusOr<Page> Viewer::XprofRuns(const SharedLibrary& library, const Query&) {
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, library->Runs());
  return JsonPage(Json(runs));
}

absl::StatusOr<Page> Viewer::XprofTools(const SharedLibrary&, const Query&) {
  return JsonPage(Json::array({"trace_viewer@"}));
}

}  // namespace strobe::viewer
