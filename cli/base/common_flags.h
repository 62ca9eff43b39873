// Flags that several commands have, and the exit codes that all of them share.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

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
                  "YAML file with the settings of object stores; see docs/how-to/storage.md")
      ->envname("STROBE_STORAGE_CONFIG")
      ->check(CLI::ExistingFile);
}

// --output, for commands whose result people and programs read. `json` says what JSON contains, if
// that is not the same as the table.
inline void AddOutputFlag(CLI::App& command, std::string& output, const std::string& json = "") {
  command.add_option("--output", output, "table, or json" + json)
      ->capture_default_str()
      ->check(CLI::IsMember({"table", "json"}));
}

}  // namespace strobe::cli
