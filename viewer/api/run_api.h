// The HTTP API's answers about one run: a query in, a page out.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/http/query.h"
#include "common/http/server.h"
#include "viewer/api/spooled_answer.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// What an answer may use.
struct AnswerMeans {
  const http::IsGone& is_gone;  // Whether nobody waits any more; may be null.
  const Scratch& scratch;       // Where a long answer lies while it is sent.
  const std::string& asker;     // Whose share of it that takes.
  bool takes_gzip = false;      // Whether a long answer may be compressed.
};

// Answers from an open run. InvalidArgument for a query that cannot be understood, NotFound for
// what the run does not hold, DataLoss for a damaged trace. What takes long ends early with
// Cancelled once the client is gone.
using RunApi = absl::StatusOr<http::Page>(const LoadedRun&, const http::Query&, const AnswerMeans&);

// What our own page asks, each at the path with its name, such as "/api/tiles".
RunApi ActivityPage, ArrowsPage, EventPage, EventsPage, FindPage, GraphPage, KindsPage, SelectPage,
    StepsPage, TablePage, TilesPage;
// What XProf's page asks, such as "/data/plugin/profile/data".
RunApi XprofDataPage, XprofHostsPage;

// Whether XProf's page asks this to show a run. It asks others for more of what it shows
// already, with numbers of rows that would mean others once the run has other traces.
bool BeginsXprofPage(const http::Query& query);

// The row numbers and ranges of `rows`, such as "3,5-9", sorted, each once. InvalidArgument if they
// are more than 1,024.
absl::StatusOr<std::vector<std::uint32_t>> ReadRows(const http::Query& query);

// The run with its workers aligned as `align` asks for; see AlignedRun. The run itself if the query
// has none.
absl::StatusOr<std::shared_ptr<const LoadedRun>> AlignmentOf(
    const std::shared_ptr<const LoadedRun>& run, const http::Query& query,
    const http::IsGone& is_gone);

// What "/api/run" answers once the run is read.
http::Page DescriptionPage(const LoadedRun& run);

// Text that is no UTF-8 is replaced, because traces may hold any bytes.
http::Page JsonPage(std::string text);
http::Page JsonPage(const nlohmann::ordered_json& json);

}  // namespace strobe::viewer
