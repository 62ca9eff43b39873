#include "viewer/api/catalog_api.h"

#include <nlohmann/json.hpp>

#include "common/base/status_macros.h"
#include "viewer/api/run_api.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxRuns = 1000;

Json ToJson(const Library& library, const catalog::FoundRun& found) {
  const catalog::RunEntry& entry = *found.entry;
  Json causes = Json::array();
  for (const catalog::Cause& cause : entry.causes)
    causes.push_back({{"name", cause.name}, {"workers", cause.workers}});
  Json json = {{"name", library.NameOf(found.logdir, entry.run)},
               {"run", entry.run},
               {"logdir", found.logdir},
               {"timeMs", entry.time_ns / 1'000'000},
               {"manifest", entry.has_manifest},
               {"unread", entry.unread},
               {"problem", entry.problem},
               {"namespace", entry.ns},
               {"request", entry.request},
               {"job", entry.job},
               {"requester", entry.requester},
               {"result", entry.result},
               {"headline", entry.headline},
               {"causes", std::move(causes)},
               {"workers", entry.workers},
               {"ok", entry.ok},
               {"bytes", entry.bytes},
               {"synchronized", entry.synchronized}};
  if (entry.skew_known) {
    json["skewNs"] = entry.skew_ns;
    json["skewErrorNs"] = entry.skew_error_ns;
  }
  return json;
}

}  // namespace

absl::StatusOr<http::Page> CatalogPage(Library& library, const http::Query& query,
                                       const catalog::Visible& visible) {
  const catalog::Catalog* const catalog = library.catalog();
  if (catalog == nullptr) return absl::NotFoundError("this viewer shows a single run");
  ASSIGN_OR_RETURN(const std::int64_t limit, query.Integer("limit", 100, 1, kMaxRuns));
  ASSIGN_OR_RETURN(const catalog::RunAnswer answer,
                   catalog->Search({.text = query.Text("q"),
                                    .limit = static_cast<std::size_t>(limit),
                                    .after = query.Text("after")},
                                   visible));
  Json runs = Json::array(), logdirs = Json::array();
  for (const catalog::FoundRun& found : answer.runs) runs.push_back(ToJson(library, found));
  for (const catalog::LogdirRunsRef& logdir : answer.logdirs) {
    logdirs.push_back({{"logdir", logdir->logdir},
                       {"listed", logdir->listed},
                       {"busy", logdir->busy},
                       {"problem", logdir->problem},
                       {"leftOut", logdir->left_out}});
  }
  return JsonPage(
      Json{{"runs", std::move(runs)}, {"next", answer.next}, {"logdirs", std::move(logdirs)}});
}

}  // namespace strobe::viewer
