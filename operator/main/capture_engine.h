// Carries ProfileRequests out: the reconciler with its threads, and the connections and memory that
// its captures take.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>

#include "capture/attempt_evidence.h"
#include "capture/evidence_memory.h"
#include "capture/report_thread.h"
#include "capture/worker/grpc_worker.h"
#include "common/base/clock.h"
#include "common/base/executor.h"
#include "operator/access/gatekeeper.h"
#include "operator/config/config.h"
#include "operator/kube/reconcile_threads.h"
#include "operator/kube/work_queue.h"
#include "operator/metrics/operator_metrics.h"
#include "operator/request/capture_count.h"
#include "operator/request/notifier.h"
#include "operator/request/request_reconciler.h"

namespace strobe {

class CaptureEngine {
 public:
  // All must outlive the engine.
  struct Dependencies {
    const Clock& clock;
    const config::OperatorConfig& config;
    metrics::OperatorMetrics& metrics;
    request::Cluster& cluster;
    kube::WorkQueue& queue;
    access::Gatekeeper* gatekeeper = nullptr;  // Null: all captures are allowed.
    capture::GrpcWorkerConnector::Credentials credentials{};
  };
  // Without a receiver, no notifications are sent.
  CaptureEngine(Dependencies dependencies, std::optional<request::Receiver> receiver);
  CaptureEngine(const CaptureEngine&) = delete;
  CaptureEngine& operator=(const CaptureEngine&) = delete;

  // Reconciles what is in the queue from now on.
  void Start();
  // Returns when nothing is reconciled any more. Captures go on at the workers.
  void Stop() { threads_.reset(); }
  // Cancels all captures and begins no others.
  void Retire();
  bool is_retired() const { return is_retired_; }
  std::size_t active() const { return reconciler_.active(); }  // Captures that are under way.
  // Returns memory to the system once large captures are over. For one thread.
  void ReleaseMemory();

 private:
  // Destroyed in reverse order: every member comes after those that its threads use.
  const Dependencies deps_;
  request::CaptureCount captures_;
  ThreadExecutor executor_;  // Before the connector, whose last calls post to it while it ends.
  ThreadExecutor judging_;   // Its tasks post to the other one.
  capture::EvidenceMemory evidence_memory_{capture::AttemptEvidence::kMaxJobBytes};
  capture::GrpcWorkerConnector connector_;
  capture::ReportThread reporter_;
  const std::unique_ptr<request::Notifier> notifier_;  // Null: no notification is sent.
  request::Reconciler reconciler_;
  std::unique_ptr<kube::ReconcileThreads> threads_;  // Null until Start.
  bool is_retired_ = false;
  std::size_t active_before_ = 0;  // Captures at the last ReleaseMemory.
};

}  // namespace strobe
