// The viewer's web server: what answers each path, for our page and for XProf's.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collector/store/catalog/run_search.h"
#include "common/base/clock.h"
#include "common/http/query.h"
#include "common/http/server.h"
#include "viewer/api/run_api.h"
#include "viewer/api/spooled_answer.h"
#include "viewer/report/reports.h"
#include "viewer/run/library.h"
#include "viewer/run/open_runs.h"

namespace strobe::viewer {

struct RouterOptions {
  index::Cache cache{};
  // Names under which the server may be reached, besides localhost and the loopback's addresses.
  // Requests for any other name are refused: a hostile site could have its own name resolve to this
  // machine, and read the traces as its own data (DNS rebinding).
  std::vector<std::string> hosts{};
  // The address of an XProf server that shows the same runs, for links; may be empty.
  std::string xprof{};
  // Several people ask, who share the room for long answers.
  bool many_askers = false;
  std::size_t max_open = OpenRunsOptions().max_open;
  // Perfetto's page, to which the browser hands a run's traces.
  std::string perfetto = "https://ui.perfetto.dev";
  std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>();
};

class Router {
 public:
  // The library must outlive the router.
  Router(Library& library, RouterOptions options);

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
  struct Route;
  struct Question {
    const http::Request& request;
    const http::Query query;
    const catalog::Visible& visible;
    const std::string& asker() const { return request.asker; }
  };
  // Answers from the library, whether or not a run is open.
  using LibraryApi = absl::StatusOr<http::Page> (Router::*)(const Question&);

  // Null if there is none for the path.
  static const Route* FindRoute(std::string_view path);
  bool MayAskStore(const Route& route, const http::Query& query) const;
  absl::StatusOr<http::Page> Dispatch(const Question& question);
  // The run that the query names, or else the first one that is visible. NotFound when there is
  // none, or it is not visible.
  absl::StatusOr<std::string> RunOf(const Question& question);
  bool MaySee(const std::string& run, const catalog::Visible& visible) const;
  // The run that the query names if it is open and visible, else null.
  std::shared_ptr<const LoadedRun> VisibleOpenRun(const http::Query& query,
                                                  const catalog::Visible& visible) const;
  // The names of the first `most` runs that are visible.
  absl::StatusOr<std::vector<std::string>> VisibleRuns(const catalog::Visible& visible,
                                                       std::size_t most);
  AnswerMeans MeansOf(const Question& question) const;
  // Answers from the run that the query names. Unavailable if it is still being read after the time
  // for which the route waits. Aborted if the query is about another `version` of it, whose rows
  // had other numbers.
  absl::StatusOr<http::Page> AskRun(RunApi* api, const Route& route, const Question& question);
  // The page, or DataLoss if the run that it was made from has changed.
  absl::StatusOr<http::Page> Checked(const OpenRun& open, absl::StatusOr<http::Page> page);

  absl::StatusOr<http::Page> Runs(const Question& question);
  absl::StatusOr<http::Page> Describe(const Question& question);
  absl::StatusOr<http::Page> Report(const Question& question);
  absl::StatusOr<http::Page> Catalog(const Question& question);
  absl::StatusOr<http::Page> XprofRuns(const Question& question);
  absl::StatusOr<http::Page> XprofTools(const Question& question);

  Library& library_;
  const Scratch scratch_;
  const RouterOptions options_;
  Reports reports_;
  OpenRuns runs_;
};

}  // namespace strobe::viewer
