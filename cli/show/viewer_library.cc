#include "cli/show/viewer_library.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "cli/base/open_traces.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLogdirs = 64;    // Each has a thread.
constexpr std::size_t kCheckedRuns = 100;  // As many are known to have files in a list of runs.
constexpr Nanos kFirstList = std::chrono::seconds(1);  // How long the first answer waits for it.
constexpr Nanos kPagePatience = std::chrono::seconds(5);

// A file, or a folder with traces, which is shown as a single run.
class OneRun final : public viewer::Library {
 public:
  OneRun(std::string path, const LibraryOptions& options)
      : path_(std::move(path)), storage_config_(options.storage_config), cache_(options.cache) {}

  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible& visible,
                                                std::size_t /*most*/) override {
    if (!visible.all) return std::vector<std::string>{};
    return std::vector<std::string>{fs::path(path_).filename().native()};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    return OpenTraces(path_, storage_config_, {.cache = cache_});
  }
  absl::StatusOr<std::string> StampOf(const std::string&) override { return StampOfTraces(path_); }
  std::string location() const override { return path_; }

 private:
  const std::string path_, storage_config_, cache_;
};

// All runs of some logdirs. Served runs are called NAME/RUN. Otherwise runs of a single logdir have
// the names of their folders, and those of several their URLs.
class RunsOfLogdirs final : public viewer::Library {
 public:
  // `names` are those of the places if they are served, otherwise empty.
  RunsOfLogdirs(std::vector<OpenLocation> locations, std::vector<std::string> names,
                const LibraryOptions& options, TraceReading reading)
      : locations_(std::move(locations)),
        names_(std::move(names)),
        storage_config_(options.storage_config),
        cancellation_(options.cancellation),
        reading_(std::move(reading)),
        cache_(options.cache) {}

  // The run that was named is the first one; the others are newest first.
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible& visible,
                                                std::size_t most) override {
    if (ListsAll()) return KnownRuns(visible, most);
    if (!visible.Has(locations_.front().location.logdir.url())) return std::vector<std::string>{};
    ASSIGN_OR_RETURN(std::vector<std::string> folders, ListRuns(*locations_.front().store));
    const auto first = std::find(folders.begin(), folders.end(), locations_.front().location.run);
    if (first != folders.end()) std::rotate(folders.begin(), first, first + 1);
    // Later folders are not checked, because each takes a request.
    const std::size_t checked = std::min({most, folders.size(), kCheckedRuns});
    std::vector<std::string> runs = FirstRuns(*locations_.front().store, folders, checked);
    if (runs.size() == checked && most > checked) {
      const auto last = std::find(folders.begin(), folders.end(), runs.back());
      runs.insert(runs.end(), last + 1, folders.end());
    }
    if (runs.size() > most) runs.resize(most);
    return runs;
  }
  absl::Status Find(const std::string& run) override {
    const absl::StatusOr<Found> found = FindPlace(run);
    RETURN_IF_ERROR(found.status());
    ASSIGN_OR_RETURN(const bool any,
                     storage::HasFiles(*found->location->store, storage::RunPrefix(found->run)));
    return any ? absl::OkStatus() : NoRun(run);
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string& run) override {
    ASSIGN_OR_RETURN(const Found found, FindPlace(run));
    return OpenTraces(WithOptions(found.location->location.logdir, found.run), storage_config_,
                      reading_);
  }
  absl::StatusOr<std::string> StampOf(const std::string& run) override {
    ASSIGN_OR_RETURN(const viewer::StoredRun stored, Store(run));
    return StampOfTraces(*stored.store, stored.run);
  }
  std::string location() const override {
    std::string text;
    for (const OpenLocation& place : locations_)
      text += StrCat(text.empty() ? "" : ", ", place.location.logdir.url());
    return text;
  }
  std::string LogdirOf(const std::string& run) const override {
    const absl::StatusOr<Found> found = FindPlace(run);
    return found.ok() ? found->location->location.logdir.url() : "";
  }
  std::string NameOf(std::string_view logdir, std::string_view run) const override {
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (locations_[i].location.logdir.url() == logdir) return StrCat(names_[i], "/", run);
    if (locations_.size() == 1) return std::string(run);
    return StrCat(logdir, "/", storage::kRunsPrefix, run);
  }
  absl::StatusOr<viewer::StoredRun> Store(const std::string& run) override {
    ASSIGN_OR_RETURN(const Found found, FindPlace(run));
    ASSIGN_OR_RETURN(
        std::unique_ptr<storage::ObjectStore> store,
        found.location->stores->Open(found.location->location.logdir,
                                     {.patience = kPagePatience, .cancellation = cancellation_}));
    return viewer::StoredRun{std::move(store), found.run};
  }
  bool has_catalog() const override { return true; }
  // Begins when somebody looks at the list, because it reads the manifests of all runs.
  const catalog::Catalog* catalog() override {
    std::call_once(catalog_once_, [this] {
      std::vector<catalog::CatalogedLogdir> logdirs;
      for (const OpenLocation& place : locations_) {
        logdirs.push_back(
            {place.location.logdir.url(), [&place](const storage::StoreLimits& limits) {
               return place.stores->Open(place.location.logdir, limits);
             }});
      }
      catalog::Options options;
      options.directory = cache_;
      catalog_.emplace(std::move(logdirs), options);
    });
    return &*catalog_;
  }
  bool names_a_run() const override { return !locations_.front().location.run.empty(); }
  bool always_lists() const override { return ListsAll(); }

 private:
  struct Found {
    const OpenLocation* location = nullptr;
    std::string run{};  // Its name in the logdir.
  };

  bool ListsAll() const { return locations_.size() > 1 || !names_.empty(); }
  static absl::Status NoRun(const std::string& run) {
    return absl::NotFoundError(StrCat("there is no run ", run.substr(0, 200)));
  }
  // Returns the names of the catalog's runs. A logdir that refuses, or does not answer, does not
  // hide the runs of the others.
  absl::StatusOr<std::vector<std::string>> KnownRuns(const catalog::Visible& visible,
                                                     std::size_t most) {
    catalog()->AwaitListed(kFirstList);
    ASSIGN_OR_RETURN(const catalog::RunAnswer answer, catalog_->Search({.limit = most}, visible));
    std::vector<std::string> names;
    for (const catalog::FoundRun& found : answer.runs)
      names.push_back(NameOf(found.logdir, found.entry->run));
    return names;
  }
  // NotFound if no run can have this name. Every run can also be named by its URL, even with a
  // single logdir, so that links need not know how many logdirs are shown.
  absl::StatusOr<Found> FindPlace(const std::string& name) const {
    for (std::size_t i = 0; i < locations_.size(); ++i) {
      const OpenLocation& place = locations_[i];
      const std::string prefix = StrCat(place.location.logdir.url(), "/", storage::kRunsPrefix);
      std::string run = name;
      if (name.starts_with(prefix))
        run = name.substr(prefix.size());
      else if (!names_.empty() && name.starts_with(StrCat(names_[i], "/")))
        run = name.substr(names_[i].size() + 1);
      else if (ListsAll())
        continue;
      if (viewer::IsNameInFolder(run)) return Found{&place, std::move(run)};
    }
    return NoRun(name);
  }
  // The run's URL, with the options of its logdir's URL.
  static std::string WithOptions(const storage::Logdir& logdir, const std::string& run) {
    std::string url = logdir.RunUrl(run);
    char separator = '?';
    for (const auto& [name, value] : logdir.options()) {
      url += StrCat(std::string_view(&separator, 1), name, "=", value);
      separator = '&';
    }
    return url;
  }

  const std::vector<OpenLocation> locations_;
  const std::vector<std::string> names_;
  const std::string storage_config_;
  const Cancellation* const cancellation_;
  const TraceReading reading_;
  const std::string cache_;
  std::once_flag catalog_once_;
  std::optional<catalog::Catalog> catalog_;  // Last, because its threads use the others.
};

absl::StatusOr<std::unique_ptr<viewer::Library>> OpenLogdirs(
    const std::vector<std::string>& locations, const LibraryOptions& options) {
  if (locations.size() > kMaxLogdirs)
    return absl::InvalidArgumentError(StrCat("give at most ", kMaxLogdirs, " logdirs"));
  TraceReading reading{.cancellation = options.cancellation, .cache = options.cache};
  std::vector<OpenLocation> open;
  std::set<std::string> urls;
  for (const std::string& text : locations) {
    ASSIGN_OR_RETURN(OpenLocation place, OpenRunLocation(text, options.storage_config,
                                                         {.cancellation = options.cancellation}));
    if (locations.size() > 1 && !place.location.run.empty())
      return absl::InvalidArgumentError(
          StrCat("\"", text, "\" is a run; give it alone, or several logdirs"));
    if (!urls.insert(place.location.logdir.url()).second)
      return absl::InvalidArgumentError(StrCat("\"", text, "\" is given twice"));
    // With a single logdir, the error is shown on the command line; with several, in the list of
    // runs.
    if (locations.size() == 1) RETURN_IF_ERROR(NewestRun(place).status());
    if (place.location.logdir.scheme() != "file" && reading.pool == nullptr) {
      // All runs that are open share one bound.
      ASSIGN_OR_RETURN(reading.pool, FetchPool::Create({}));
    }
    open.push_back(std::move(place));
  }
  return std::make_unique<RunsOfLogdirs>(std::move(open), std::vector<std::string>{}, options,
                                         std::move(reading));
}

}  // namespace

absl::StatusOr<std::unique_ptr<viewer::Library>> OpenServed(
    const std::vector<ServedLocation>& locations, const LibraryOptions& options) {
  TraceReading reading{.cancellation = options.cancellation,
                       .files_through_store = true,
                       .json = std::make_shared<JsonConversions>(
                           JsonConversions::Limits{}, std::make_shared<const SystemClock>())};
  ASSIGN_OR_RETURN(reading.pool, FetchPool::Create({}));
  std::vector<OpenLocation> open;
  std::vector<std::string> names;
  std::set<std::string> urls;
  for (const ServedLocation& served : locations) {
    absl::StatusOr<OpenLocation> place =
        OpenRunLocation(served.url, options.storage_config, {.cancellation = options.cancellation});
    if (!place.ok())
      return absl::Status(place.status().code(),
                          ToAbsl(StrCat("logdirs: ", MessageOf(place.status()))));
    if (!place->location.run.empty())
      return absl::InvalidArgumentError(
          StrCat("logdirs: ", served.url, " is a run; give its logdir"));
    if (!urls.insert(place->location.logdir.url()).second)
      return absl::InvalidArgumentError(StrCat("logdirs: ", served.url,
                                               " is listed twice; a logdir belongs to one "
                                               "namespace"));
    names.push_back(served.name);
    open.push_back(*std::move(place));
  }
  auto library = std::make_unique<RunsOfLogdirs>(std::move(open), std::move(names), options,
                                                 std::move(reading));
  library->catalog();
  return library;
}

absl::StatusOr<std::unique_ptr<viewer::Library>> OpenLibrary(
    const std::vector<std::string>& locations, const LibraryOptions& options) {
  if (locations.size() != 1) return OpenLogdirs(locations, options);
  std::error_code error;
  std::string place = locations.front();
  if (fs::is_regular_file(place, error)) {
    RETURN_IF_ERROR(MayBeJson(place).status());
    return std::make_unique<OneRun>(fs::absolute(place).lexically_normal().native(), options);
  }
  if (fs::is_directory(place, error)) {
    place = fs::absolute(place).lexically_normal().native();
    while (place.size() > 1 && place.ends_with('/')) place.pop_back();
    // A run is opened through its logdir, so that the logdir's other runs can be chosen too.
    const bool run = Contains(place, StrCat("/", storage::kRunsPrefix));
    if (!run && HasTraces(place)) return std::make_unique<OneRun>(place, options);
  }
  return OpenLogdirs({place}, options);
}

}  // namespace strobe::cli
