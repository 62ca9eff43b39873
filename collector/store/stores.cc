#include "collector/store/stores.h"

#include <cstdlib>
#include <utility>

#include "collector/store/cloud_store.h"
#include "collector/store/timed_file_store.h"
#include "common/base/status_macros.h"

namespace strobe::storage {

absl::StatusOr<std::unique_ptr<ObjectStore>> Stores::Open(const Logdir& logdir,
                                                          const StoreLimits& limits) {
  std::unique_ptr<ObjectStore> store;
  if (logdir.scheme() == "file") {
    store = OpenFileStore(logdir.path(), limits);
  } else {
    const Environment environment = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value == nullptr ? "" : value);
    };
    ASSIGN_OR_RETURN(const OptionMap options,
                     ResolveStoreOptions(logdir, config_, url_options_, environment));
    ASSIGN_OR_RETURN(store, OpenCloudStore(logdir, options, limits));
  }
  return WithRetries(std::move(store), limits, on_retry_);
}

}  // namespace strobe::storage
