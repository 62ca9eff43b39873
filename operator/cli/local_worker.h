// Stock profiler servers as workers: a sidecar inside this process stands between.
#pragma once
#include <memory>

#include "collector/base/clock.h"
#include "collector/logdir/object_store.h"
#include "operator/core/ports.h"
#include "operator/workers/undertaker.h"

namespace strobe {

// Connects to sidecars through `sidecars`; an address that answers a sidecar's first question with
// Unimplemented is taken for a stock profiler server. All outlive every worker.
class MixedConnector final : public WorkerConnector {
 public:
  MixedConnector(const Clock& clock, StoreOpener& stores, WorkerConnector& sidecars)
      : clock_(clock), stores_(stores), sidecars_(sidecars) {}
  std::shared_ptr<Worker> Connect(const Target& target) override;

 private:
  const Clock& clock_;
  StoreOpener& stores_;
  WorkerConnector& sidecars_;
  Undertaker undertaker_;
};

}  // namespace strobe
