// Lets stock profiler servers take part in a capture, through a sidecar inside this process.
#pragma once
#include <memory>

#include "capture/ports.h"
#include "capture/worker/deferred_deleter.h"
#include "capture/worker/probe_slots.h"
#include "collector/store/object_store.h"
#include "common/base/clock.h"
#include "sidecar/source/base/server_risks.h"

namespace strobe::cli {

// Connects to workers whose kind is not known. Each one is first asked as a sidecar, through
// `sidecars`; if it answers Unimplemented, it is treated as a stock profiler server. All references
// must outlive every worker. For `risks` see ServerRisks.
class MixedConnector final : public capture::WorkerConnector {
 public:
  MixedConnector(const Clock& clock, storage::StoreOpener& stores,
                 capture::WorkerConnector& sidecars, const source::ServerRisks& risks)
      : clock_(clock), stores_(stores), sidecars_(sidecars), risks_(risks) {}
  std::shared_ptr<capture::Worker> Connect(const capture::Target& target) override;

 private:
  const Clock& clock_;
  storage::StoreOpener& stores_;
  capture::WorkerConnector& sidecars_;
  const source::ServerRisks risks_;
  capture::ProbeSlots slots_;
  capture::DeferredDeleter deleter_;  // Last: its destructor waits for calls, which use the rest.
};

}  // namespace strobe::cli
