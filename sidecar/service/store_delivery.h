// Puts a trace into its plan's logdir.
#pragma once
#include "collector/logdir/object_store.h"
#include "sidecar/session/ports.h"

namespace strobe {

class StoreDelivery final : public session::Delivery {
 public:
  explicit StoreDelivery(StoreOpener& stores) : stores_(stores) {}
  absl::StatusOr<std::string> Deliver(const v1::CapturePlan& plan,
                                      std::span<const std::string_view> pieces) override;

 private:
  StoreOpener& stores_;
};

}  // namespace strobe
