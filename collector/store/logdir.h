// Names and layout of a logdir.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe::storage {

// A validated and normalized logdir, such as "file:///data/logs" or "gs://bucket/prefix". It has no
// trailing slash, no "." or "..", and no user info. A bucket's URL may have options:
// "s3://b/p?region=eu-west-1".
class Logdir {
 public:
  // Accepts an absolute path or a URL with scheme file, gs, s3 or az. The error tells what to
  // write.
  static absl::StatusOr<Logdir> Parse(std::string_view text);

  const std::string& scheme() const { return scheme_; }  // "file", "gs", "s3", "az".
  const std::string& bucket() const { return bucket_; }  // Empty for scheme file.
  // An absolute path for scheme file, otherwise a key prefix.
  const std::string& path() const { return path_; }
  // The decoded options behind "?". The StoreOpener decides which of them it accepts.
  const std::map<std::string, std::string>& options() const { return options_; }
  std::string url() const;  // The URL without the options.

  // The URL of an object of the logdir; `key` is relative to it.
  std::string UrlOf(std::string_view key) const;
  // The URL of the run's directory.
  std::string RunUrl(std::string_view run) const;

 private:
  std::string scheme_, bucket_, path_;
  std::map<std::string, std::string> options_;
};

// Where a logdir's runs are, and how the name of a trace ends.
inline constexpr std::string_view kRunsPrefix = "plugins/profile/";
inline constexpr std::string_view kTraceSuffix = ".xplane.pb";

// Whether a file in a run's folder is a worker's trace, by its name below the folder: as an XSpace,
// or as JSON. Other JSON files, such as the manifest, may hold anything.
bool IsSpaceName(std::string_view name);
bool IsTraceJsonName(std::string_view name);

// Makes a relative path absolute, from the process's working directory, because Logdir::Parse
// accepts no relative path. URLs, absolute paths and the empty text stay as they are.
std::string AbsoluteLocation(const std::string& place);

// The run that the URL of a trace names; empty if it is none: ".../<run>/<worker>.xplane.pb".
std::string RunOfTraceUrl(std::string_view url);

// Keys of a run's objects, relative to the logdir.
std::string RunPrefix(std::string_view run);                          // "plugins/profile/<run>/"
std::string TraceKey(std::string_view run, std::string_view worker);  // "...<worker>.xplane.pb"
std::string ManifestKey(std::string_view run);                        // "...strobe.json"
std::string ReportKey(std::string_view run);                          // "...report.json"
std::string EvidenceKey(std::string_view run);                        // "...evidence.json"
// "...evidence/<worker>/<name>": what a worker's processes showed while they stood still.
std::string EvidenceFileKey(std::string_view run, std::string_view worker, std::string_view name);
inline constexpr std::string_view kEvidenceFolder = "evidence/";  // Below the run's.

// Returns "2026_11_21_08_30_00_<name>_<id>", in UTC, which sorts by time in XProf's list. `id`
// makes the name unique, such as a UID; only its first characters are used. Without an id, the name
// ends before it. Long names are cut to stay safe names.
std::string DefaultRunName(WallTime time, std::string_view name, std::string_view id);
// The run's name for a later attempt: the name with the attempt's number appended, so that the
// files of two attempts are never mixed.
std::string RunOfAttempt(std::string_view run, int attempt);
// The run's name in the URL of an attempt's run, without the attempt's number. Empty if it is not
// such a URL.
std::string RunOfUrl(std::string_view url, int attempt);

}  // namespace strobe::storage
