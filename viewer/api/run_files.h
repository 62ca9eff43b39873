// The answers about a run's objects: its manifest, its files, and its traces for Perfetto's page.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/http/query.h"
#include "common/http/server.h"
#include "viewer/api/run_api.h"
#include "viewer/run/library.h"

namespace strobe::viewer {

// Answers from a run's objects in the store.
using FileApi = absl::StatusOr<http::Page>(Library& library, const std::string& run,
                                           const http::Request& request, const AnswerMeans& means);

// "/api/manifest": verdict, workers and files. A run without a manifest has files only.
FileApi ManifestPage;
// "/api/file?file=": one of the run's files, or the part of it that the request's Range asks for.
FileApi FilePage;
// "/api/perfetto": all of the run's traces in Perfetto's format.
FileApi PerfettoPage;

// The part of a file that a Range header asks for: the bytes from `begin` on, to before `end`.
struct ByteRange {
  std::uint64_t begin = 0, end = 0;
};
// nullopt if there is no such header, or one that may be answered with the whole file. OutOfRange
// if the file has no such bytes.
absl::StatusOr<std::optional<ByteRange>> ParseRange(const std::string& header, std::uint64_t size);

}  // namespace strobe::viewer
