#include "sidecar/service/store_delivery.h"

#include "collector/base/status_macros.h"
#include "collector/base/strings.h"

namespace strobe {

absl::StatusOr<std::string> StoreDelivery::Deliver(const v1::CapturePlan& plan,
                                                   std::span<const std::string_view> pieces) {
  ASSIGN_OR_RETURN(const Logdir logdir, Logdir::Parse(plan.logdir()));
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, stores_.Open(logdir));
  RETURN_IF_ERROR(store->Put(TraceKey(plan.run(), plan.worker()), pieces));
  return StrCat(logdir.RunUrl(plan.run()), "/", plan.worker(), ".xplane.pb");
}

}  // namespace strobe
