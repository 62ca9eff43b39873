// How a store is reached and as whom: merged from the logdir's URL, a configuration file and the
// environment, in this order of precedence. Pure. docs/how-to/storage.md lists everything for
// users.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/logdir/logdir.h"

namespace strobe {

using OptionMap = std::map<std::string, std::string>;

// The file: per scheme (s3, gs, az) the options of a URL, and any key of the object_store crate.
struct StorageConfig {
  std::map<std::string, OptionMap> schemes{};
};
// InvalidArgument with file, line and column.
absl::StatusOr<StorageConfig> ParseStorageConfig(std::string_view yaml, std::string_view file);
absl::StatusOr<StorageConfig> ReadStorageConfig(const std::string& file);  // "" is no file.

// Which options a URL may set. A URL that somebody else wrote must not send this identity's
// signed requests to a server of their choice.
enum class UrlOptions {
  kAll,       // endpoint, proxy, ca_bundle too: the person at the command line wrote the URL.
  kHarmless,  // region, path_style, account, anonymous.
};

// Reads one variable of the environment; empty when it is not set.
using Environment = std::function<std::string(const char*)>;

// What OpenCloudStore takes. InvalidArgument names the option.
absl::StatusOr<OptionMap> ResolveStoreOptions(const Logdir& logdir, const StorageConfig& config,
                                              UrlOptions allowed, const Environment& environment);

}  // namespace strobe
