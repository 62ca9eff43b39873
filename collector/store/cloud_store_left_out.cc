// In place of cloud_store.cc, for builds without Rust.
#include "collector/store/cloud_store.h"
#include "common/base/strings.h"

namespace strobe::storage {

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenCloudStore(
    const Logdir& logdir, const std::map<std::string, std::string>& /*options*/,
    const StoreLimits& /*limits*/) {
  return absl::FailedPreconditionError(StrCat("cannot open ", logdir.url(),
                                              ": this program was built without object storage, as "
                                              "`make demo` does; `make` builds it with that"));
}

}  // namespace strobe::storage
