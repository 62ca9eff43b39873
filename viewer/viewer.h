// The viewer's web server: our page and its data, and the same data for XProf's page.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "collector/store/catalog/run_search.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/http/http_server.h"
#include "common/http/query.h"
#include "viewer/api/run_api.h"
#include "viewer/api/spooled_answer.h"
#include "viewer/report/reports.h"
#include "viewer/run/eviction.h"
#include "viewer/run/library.h"
#include "viewer/run/loader.h"

namespace strobe::viewer {

struct ViewerOptions {
  index::Cache cache{};
  // Names under which the server may be reached, besides localhost and the loopback's addresses.
  // Requests for any other name are refused: a hostile site could have its own name resolve to this
  // machine, and read the traces as its own data (DNS rebinding).
  std::vector<std::string> hosts{};
  // The address of an XProf server that shows the same runs, for links; may be empty.
  std::string xprof{};
  // Several people ask, who share the room for long answers.
  bool many_askers = false;
  // How many runs stay open, each with its traces mapped. Two are enough for one person to go back
  // and forth between them.
  std::size_t max_open = 2;
  // Perfetto's page, to which the browser hands a run's traces.
  std::string perfetto = "https://ui.perfetto.dev";
  std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>();
};

class Viewer {
 public:
  // The library must outlive the viewer.
  Viewer(Library& library, ViewerOptions options);

  // Answers any request. Safe to call from several threads. Runs of logdirs that are not `visible`
  // do not exist for the asker.
  http::Page Answer(const http::Request& request,
                    const catalog::Visible& visible = catalog::kAllVisible);
  // What the answer takes, judged by what it may cost. kHeavy for requests of XProf's page, which
  // wait for runs that are still being read, and for a run's manifest and report, which may be
  // large. Null: it is not known what the asker may see, and any run is taken to be large.
  http::Load LoadOf(const http::Request& request, const catalog::Visible* visible) const;
  // True for requests that may wait for an object store: of runs in one, those that open a run, and
  // those that read its traces and not only their indexes. One store that does not answer must not
  // keep others from the runs that are open.
  bool MayAskStore(const http::Request& request) const;

 private:
  using Run = std::shared_ptr<const LoadedRun>;
  struct Current {
    std::shared_ptr<Loader> loader{};  // Null if the run has to wait for others.
    Run run{};                         // Null if it is still being read.
  };
  struct Question {
    const http::Request& request;
    const http::Query query;
    const catalog::Visible& visible;
    const std::string& asker() const { return request.asker; }
  };
  struct Opened {
    std::string run{};
    Askers askers{};
    std::shared_ptr<Loader> loader{};
    MonoTime asked_at{};  // When it was asked for last.
    MonoTime checked{};   // When it was read, or found to have the same traces as before.
    bool served = false;  // Somebody has got it.
  };

  absl::StatusOr<http::Page> Route(const Question& question);
  // The run that the query names, or else the first one that is visible. NotFound when there is
  // none, or it is not visible.
  absl::StatusOr<std::string> RunOf(const Question& question);
  bool MaySee(const std::string& run, const catalog::Visible& visible) const;

  // The run that the query names if it is open and visible, else null.
  Run OpenedRun(const http::Query& query, const catalog::Visible& visible) const;

  // The run's loader if there is one, else null. Makes it the one that is evicted last.
  std::shared_ptr<Loader> FindLoader(const std::string& run, const std::string& asker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The run's loader; starts to read the run if nobody has. Null if the run has to wait: because
  // `max_open` others are being read for somebody, which would evict one another for ever, or
  // because more than `max_open` evicted ones have not ended yet.
  std::shared_ptr<Loader> TryLoaderOf(const std::string& run, const std::string& asker);
  // Stops the evicted loaders for which nobody waits, and returns those that have ended.
  std::vector<std::shared_ptr<Loader>> TakeEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees the evicted loaders that the last request was waiting for.
  void FreeEvicted();
  // Like TryLoaderOf, but waits up to `wait` for a free slot. Null on timeout.
  std::shared_ptr<Loader> LoaderOf(const std::string& run, Nanos wait, const std::string& asker);
  // Null if the run is still being read after `wait`, or without a loader. After an error the
  // loader is forgotten.
  absl::StatusOr<Run> Loaded(const std::shared_ptr<Loader>& loader, Nanos wait);
  void NoteGiven(const std::shared_ptr<Loader>& loader);
  // Whether traces of a run that is open were added, replaced or removed since it was read. Asks
  // the library at most every few seconds.
  bool IsStale(const std::string& run, const std::shared_ptr<Loader>& loader);
  void Forget(const std::shared_ptr<Loader>& loader);
  // Evicts a run that somebody has got, to make room for this asker. False if there is none.
  bool EvictOne(const std::string& asker);
  // The run as far as it was read after `wait`. Others are evicted if there is no room for it in
  // the process.
  absl::StatusOr<Current> Open(const std::string& name, Nanos wait, const std::string& asker);
  // Like Open, but a run whose traces have changed is read again.
  absl::StatusOr<Current> OpenFresh(const std::string& name, Nanos wait, const std::string& asker);
  // Answers from the run that the query names. Unavailable if it is still being read after `wait`.
  // Aborted if the query is about another `version` of it, whose rows had other numbers.
  absl::StatusOr<http::Page> AskRun(RunApi api, const Question& question, Nanos wait);
  // The page, or DataLoss when the run's files were changed since they were opened: the page may be
  // wrong then, and the next request reads the run anew.
  absl::StatusOr<http::Page> Checked(const LoadedRun& run, const std::shared_ptr<Loader>& loader,
                                     absl::StatusOr<http::Page> page);

  // The names of the first `most` runs that are visible.
  absl::StatusOr<std::vector<std::string>> VisibleRuns(const catalog::Visible& visible,
                                                       std::size_t most);
  absl::StatusOr<http::Page> Runs(const Question& question);
  absl::StatusOr<http::Page> Describe(const Question& question);
  absl::StatusOr<http::Page> Report(const Question& question);
  absl::StatusOr<http::Page> Catalog(const Question& question);
  absl::StatusOr<http::Page> XprofRuns(const Question& question);
  absl::StatusOr<http::Page> XprofTools(const Question& question);

  Library& library_;
  const Scratch scratch_;
  const ViewerOptions options_;
  Reports reports_;
  mutable Mutex mutex_;
  // The one that was asked for last at the end.
  std::vector<Opened> opened_ ABSL_GUARDED_BY(mutex_);
  // Loaders that were evicted, until they have ended: the store that they ask may answer late.
  std::vector<std::shared_ptr<Loader>> evicted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::viewer
