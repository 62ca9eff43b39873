// The viewer's web server: our page and its data, and the same data for XProf's page.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/http/http_server.h"
#include "common/http/query.h"
#include "viewer/library.h"
#include "viewer/loader.h"
#include "viewer/run_api.h"

namespace strobe::viewer {

struct ViewerOptions {
  index::Cache cache{};
  // Names under which the server may be reached, besides localhost and the loopback's addresses.
  // Requests for any other name are refused: a hostile site could have its own name resolve to this
  // machine, and read the traces as its own data (DNS rebinding).
  std::vector<std::string> hosts{};
  // The address of an XProf server that shows the same runs, for links; may be empty.
  std::string xprof{};
  // How many runs stay open, each with its traces mapped. Two are enough for one person to go back
  // and forth between them.
  std::size_t max_open = 2;
};

class Viewer {
 public:
  using SharedLibrary = std::shared_ptr<Library>;

  explicit Viewer(ViewerOptions options) : options_(std::move(options)) {}

  // Answers any request about the library's runs, and knows no other runs: each asker has the
  // library of what he may see. Libraries of one viewer that hold runs of the same name hold the
  // same runs. Safe to call from several threads.
  Page Answer(const Request& request, const SharedLibrary& library);
  // True for requests of XProf's page, which convert whole traces and wait for runs that are still
  // being read, and for searches that read every event.
  static bool IsSlow(const Request& request);

 private:
  using Run = std::shared_ptr<const LoadedRun>;

  absl::StatusOr<Page> Route(const Request& request, const SharedLibrary& library);

  // The run's loader if there is one, else null. Makes it the one that is evicted last.
  std::shared_ptr<Loader> Known(const std::string& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The loader of the run that the query names, or of the library's first run when it names none;
  // starts to read the run if nobody has. NotFound when there is no such run.
  absl::StatusOr<std::shared_ptr<Loader>> LoaderOf(const SharedLibrary& library,
                                                   const Query& query);
  // Null if the run is still being read after `wait`. After an error the loader is forgotten.
  absl::StatusOr<Run> Loaded(const std::shared_ptr<Loader>& loader, Nanos wait);
  void Forget(const std::shared_ptr<Loader>& loader);
  // Answers from the run that the query names. Unavailable if it is still being read after `wait`.
  absl::StatusOr<Page> AskRun(RunApi api, const SharedLibrary& library, const Query& query,
                              Nanos wait);
  // The page, or DataLoss when the run's files were changed since they were opened: the page may be
  // wrong then, and the next request reads the run anew.
  absl::StatusOr<Page> Checked(const LoadedRun& run, const std::shared_ptr<Loader>& loader,
                               absl::StatusOr<Page> page);

  absl::StatusOr<Page> Runs(const SharedLibrary& library, const Query& query);
  absl::StatusOr<Page> Describe(const SharedLibrary& library, const Query& query);
  absl::StatusOr<Page> XprofRuns(const SharedLibrary& library, const Query& query);
  absl::StatusOr<Page> XprofTools(const SharedLibrary& library, const Query& query);

  const ViewerOptions options_;
  Mutex mutex_;
  // By name, the one that was asked for last at the end.
  std::vector<std::pair<std::string, std::shared_ptr<Loader>>> loaders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::viewer
