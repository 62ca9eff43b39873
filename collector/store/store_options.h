// Determines a store's address and credentials from the logdir's URL, a configuration file and the
// environment, in this order of precedence. Pure. docs/how-to/storage.md documents all options for
// users.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/store/logdir.h"

namespace strobe::storage {

using OptionMap = std::map<std::string, std::string>;

// The configuration file: for each scheme (s3, gs, az), the options of a URL and any key of the
// object_store crate.
struct StorageConfig {
  std::map<std::string, OptionMap> schemes{};
  // Not OK if the file could not be used. Every store then ends with this error.
  absl::Status wrong{};
};
// InvalidArgument, with file, line and column in the message.
absl::StatusOr<StorageConfig> ParseStorageConfig(std::string_view yaml, std::string_view file);
// An empty name means no file.
absl::StatusOr<StorageConfig> ReadStorageConfig(const std::string& file);

// The options that a URL may set. A URL from another person must not send this identity's signed
// requests to a server of that person's choice.
enum class UrlOptions {
  // Also endpoint, proxy and ca_bundle, because the user of the command line wrote the URL.
  kAll,
  kHarmless,  // Only region, path_style, account and anonymous.
};

// Reads an environment variable; empty if it is not set.
using Environment = std::function<std::string(const char*)>;

// Returns the options for OpenCloudStore. InvalidArgument names the wrong option.
absl::StatusOr<OptionMap> ResolveStoreOptions(const Logdir& logdir, const StorageConfig& config,
                                              UrlOptions allowed, const Environment& environment);

}  // namespace strobe::storage
