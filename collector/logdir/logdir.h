// Names and layout of a logdir.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe {

// A validated, normalised logdir: "file:///data/logs", "gs://bucket/prefix". No trailing slash, no
// "." or "..", no user info. A bucket's URL may carry options: "s3://b/p?region=eu-west-1".
class Logdir {
 public:
  // Accepts an absolute path or a URL of scheme file, gs, s3 or az. The error says what to write.
  static absl::StatusOr<Logdir> Parse(std::string_view text);

  const std::string& scheme() const { return scheme_; }  // "file", "gs", "s3", "az".
  const std::string& bucket() const { return bucket_; }  // Empty for file.
  const std::string& path() const { return path_; }      // Absolute for file, else a key prefix.
  // What stood behind "?", decoded. Whoever opens the store decides which of them it heeds.
  const std::map<std::string, std::string>& options() const { return options_; }
  std::string url() const;  // Without the options.

  // The run's directory as a URL.
  std::string RunUrl(std::string_view run) const;

 private:
  std::string scheme_, bucket_, path_;
  std::map<std::string, std::string> options_;
};

// Key of a run's object, relative to the logdir.
std::string RunPrefix(std::string_view run);                          // "plugins/profile/<run>/"
std::string TraceKey(std::string_view run, std::string_view worker);  // "...<worker>.xplane.pb"
std::string ManifestKey(std::string_view run);                        // "...strobe.json"

// "2026_11_21_08_30_00_<name>_<id>": sorts by time in XProf's list; UTC. `id` is what no other run
// of that second and name has, such as a UID, of which the first characters are taken; without one
// the name ends before it. A long name is cut, so that it stays a safe one.
std::string DefaultRunName(WallTime time, std::string_view name, std::string_view id);
// The run of a later attempt: the same name with the attempt behind it, so that files of two
// attempts never mix.
std::string RunOfAttempt(std::string_view run, int attempt);
// The other way round, from the URL of an attempt's run; empty when it is none.
std::string RunOfUrl(std::string_view url, int attempt);

}  // namespace strobe
