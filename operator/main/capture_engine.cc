#include "operator/main/capture_engine.h"

#include <malloc.h>

#include <string>
#include <utility>

namespace strobe {
namespace {

// How long workers may take to hear that their captures are over: as long as an attempt waits for
// them.
constexpr Nanos kRetirePatience = std::chrono::seconds(8);

}  // namespace

CaptureEngine::CaptureEngine(Dependencies dependencies, std::optional<request::Receiver> receiver)
    : deps_(std::move(dependencies)),
      captures_(deps_.metrics),
      connector_(deps_.clock, deps_.credentials),
      reporter_(deps_.clock),
      notifier_(receiver ? std::make_unique<request::Notifier>(
                               deps_.clock, *std::move(receiver), deps_.config.notify.source,
                               [this](request::Notified result) {
                                 deps_.metrics.Notified(std::string(request::Name(result)));
                               })
                         : nullptr),
      reconciler_({.clock = deps_.clock,
                   .executor = executor_,
                   .workers = connector_,
                   .cluster = deps_.cluster,
                   .metrics = captures_,
                   .enqueue = [this](const std::string& key) { deps_.queue.Add(key); },
                   .gatekeeper = deps_.gatekeeper,
                   .viewer_url = deps_.config.viewer_url,
                   .reporter = &reporter_,
                   .notify =
                       [this](const objects::ProfileRequest& request,
                              const objects::RequestStatus& status, request::CaptureEnd end) {
                         if (notifier_) notifier_->NotifyEnd(request, status, end);
                       },
                   .judging = &judging_,
                   .evidence_memory = &evidence_memory_}) {}

void CaptureEngine::Start() {
  const int threads = deps_.config.max_concurrent_reconciles;
  if (deps_.config.watch_namespace.empty())
    deps_.queue.ShareAmong(static_cast<std::size_t>(threads));
  threads_ = std::make_unique<kube::ReconcileThreads>(
      deps_.clock, threads, deps_.queue,
      [this](const std::string& key) { return reconciler_.Reconcile(key); },
      [this](const std::string& result, Nanos took) { deps_.metrics.Reconciled(result, took); });
}

void CaptureEngine::Retire() {
  is_retired_ = true;
  reconciler_.Retire("Strobe is being removed");
  captures_.AwaitNone(kRetirePatience);
  deps_.queue.ShutDown();
}

void CaptureEngine::ReleaseMemory() {
  const std::size_t active = reconciler_.active();
  if (active < active_before_) malloc_trim(0);
  active_before_ = active;
}

}  // namespace strobe
