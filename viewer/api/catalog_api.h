// The answers for the page that lists runs.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "collector/store/catalog/catalog.h"
#include "common/http/query.h"
#include "common/http/server.h"
#include "viewer/run/library.h"

namespace strobe::viewer {

// "/api/catalog?q=&limit=&after=": the runs that match, newest first. Nothing in the answer depends
// on runs that the asker may not see.
absl::StatusOr<http::Page> CatalogPage(Library& library, const http::Query& query,
                                       const catalog::Visible& visible);

}  // namespace strobe::viewer
