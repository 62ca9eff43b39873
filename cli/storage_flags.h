// The flag that every command which opens a logdir has.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace strobe {

inline void AddStorageConfigFlag(CLI::App& command, std::string& file) {
  command
      .add_option("--storage-config", file,
                  "YAML file with endpoint, region, credentials... of s3, gs and az; see "
                  "docs/how-to/storage.md")
      ->envname("STROBE_STORAGE_CONFIG")
      ->check(CLI::ExistingFile);
}

}  // namespace strobe
