// The viewer's web server: the page, its data, and XProf's face.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collector/base/mutex.h"
#include "collector/http/http_server.h"
#include "collector/http/query.h"
#include "collector/viewer/library.h"
#include "collector/viewer/loader.h"

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

 private:
  using Run = std::shared_ptr<const LoadedRun>;
  using Api = absl::StatusOr<Page> (Viewer::*)(const Query&);

  bool MayAsk(const std::string& host) const;
  absl::StatusOr<Page> Route(const Request& request);
  // A run that is open already, or null.
  std::shared_ptr<Loader> Known(const std::string& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Loader>> LoaderOf(const Query& query);
  // Unavailable while the run is being read.
  absl::StatusOr<Run> RunOf(const Query& query, Nanos wait = Nanos{0});
  // The same, but null while it is being read. What could not be read is forgotten.
  absl::StatusOr<Run> Loaded(const std::shared_ptr<Loader>& loader, Nanos wait);

  absl::StatusOr<Page> Runs(const Query& query);
  absl::StatusOr<Page> Describe(const Query& query);
  absl::StatusOr<Page> Tiles(const Query& query);
  absl::StatusOr<Page> Event(const Query& query);
  absl::StatusOr<Page> Events(const Query& query);
  absl::StatusOr<Page> Find(const Query& query);
  absl::StatusOr<Page> Select(const Query& query);
  absl::StatusOr<Page> ShowArrows(const Query& query);
  absl::StatusOr<Page> Steps(const Query& query);
  absl::StatusOr<Page> XprofRuns(const Query& query);
  absl::StatusOr<Page> XprofTools(const Query& query);
  absl::StatusOr<Page> XprofHostsPage(const Query& query);
  absl::StatusOr<Page> XprofDataPage(const Query& query);

  Library& library_;
  const ViewerOptions options_;
  Mutex mutex_;
  // The runs that were asked for last, the latest at the end.
  std::vector<std::pair<std::string, std::shared_ptr<Loader>>> loaders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::viewer
