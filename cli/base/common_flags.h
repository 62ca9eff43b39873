// Flags that several commands have, and the exit codes that all of them share.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;      // The work was not done, or not all of it.
inline constexpr int kExitWrongFlags = 2;  // Nothing was tried.

// The heading that --help shows first, CLI11's default. Commands with many flags put the rare ones
// under headings of their own.
inline constexpr char kCommonFlags[] = "Options";

// --storage-config, for every command that opens a logdir.
inline void AddStorageConfigFlag(CLI::App& command, std::string& file) {
  command
      .add_option("--storage-config", file,
                  "settings of object stores, in YAML; see docs/how-to/storage.md")
      ->envname("STROBE_STORAGE_CONFIG")
      ->check(CLI::ExistingFile);
}

// The traces that a command reads.
inline void AddPlaceArgument(CLI::App& command, std::string& place) {
  command
      .add_option(
          "place", place,
          "a run, a logdir (then its newest run), a .xplane.pb file, or a trace in Chrome's "
          "format (.json, .json.gz)")
      ->required();
}

// The value of a flag that takes a duration.
inline absl::StatusOr<Nanos> DurationOf(std::string_view flag, const std::string& text) {
  absl::StatusOr<Nanos> parsed = ParseDuration(text);
  if (parsed.ok()) return parsed;
  return absl::InvalidArgumentError(StrCat(flag, ": ", MessageOf(parsed.status())));
}

// --output, for commands whose result people and programs read. `more` ends its explanation.
inline void AddOutputFlag(CLI::App& command, std::string& output, const std::string& more = "",
                          const std::vector<std::string>& formats = {"table", "json"}) {
  command.add_option("--output", output, "format of the result" + more)
      ->capture_default_str()
      ->check(CLI::IsMember(formats));
}

}  // namespace strobe::cli
