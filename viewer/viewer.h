// The viewer's web server: the page, its data, and XProf's face.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/http/http_server.h"
#include "common/http/query.h"
#include "viewer/library.h"
#include "viewer/loader.h"

namespace strobe::viewer {

struct ViewerOptions {
  index::Cache cache{};
  // Names under which the server may be asked for, besides addresses of the loopback; a page from
  // elsewhere that had its own name point here is refused (DNS rebinding).
  std::vector<std::string> hosts{};
};

class Viewer {
 public:
  // The library must outlive it.
  Viewer(Library& library, ViewerOptions options);

  // Answers any request. Safe from many threads.
  Page Answer(const Request& request);
  // XProf's page has whole traces converted, and waits for runs that are being read.
  static bool IsSlow(const Request& request);

 private:
  using Run = std::shared_ptr<const LoadedRun>;

  bool MayAsk(const std::string& host) const;
  absl::StatusOr<Page> Route(const Request& request);
  // A run that is open already, or null.
  std::shared_ptr<Loader> Known(const std::string& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Loader>> LoaderOf(const Query& query);
  // Null while the run is being read. What could not be read is forgotten.
  absl::StatusOr<Run> Loaded(const std::shared_ptr<Loader>& loader, Nanos wait);
  void Forget(const std::shared_ptr<Loader>& loader);

  // Of the logdir.
  absl::StatusOr<Page> Runs(const Query& query);
  absl::StatusOr<Page> Describe(const Query& query);
  absl::StatusOr<Page> XprofRuns(const Query& query);
  absl::StatusOr<Page> XprofTools(const Query& query);
  // Of a run, by a function of it. Unavailable while it is being read; DataLoss when its files
  // changed meanwhile, and then it is read anew for whoever asks next.
  using RunApi = absl::StatusOr<Page> (*)(const LoadedRun&, const Query&);
  absl::StatusOr<Page> AskRun(const std::shared_ptr<Loader>& loader, RunApi api, const Query& query,
                              Nanos wait);

  Library& library_;
  const ViewerOptions options_;
  Mutex mutex_;
  // The runs that were asked for last, the latest at the end.
  std::vector<std::pair<std::string, std::shared_ptr<Loader>>> loaders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::viewer
