// A whole sidecar: sources, storage, capture runner and servers, built from its flags.
#pragma once
#include <grpcpp/resource_quota.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "collector/store/stores.h"
#include "common/base/clock.h"
#include "common/grpc_tls/grpc_server.h"
#include "common/http/server.h"
#include "sidecar/capture/capture_runner.h"
#include "sidecar/enroll/enroller.h"
#include "sidecar/main/agent_parts.h"
#include "sidecar/main/flags.h"
#include "sidecar/main/sign_watch.h"
#include "sidecar/service/guarded_worker.h"
#include "sidecar/service/profiler_service.h"
#include "sidecar/service/sidecar_metrics.h"
#include "sidecar/service/worker_service.h"
#include "sidecar/source/agent/collective_counts.h"
#include "sidecar/source/framework/framework_source.h"
#include "sidecar/spool/spool.h"
#include "sidecar/spool/upload_delivery.h"
#include "sidecar/stall/evidence_collector.h"

namespace strobe {

class SidecarServer {
 public:
  // Opens the spool and the agent's directory; an error says which of them another sidecar uses, or
  // why the spool cannot be used. The flags have passed CheckFlags. `failed` is called at most
  // once, from another thread and after Start, if the sidecar has to end.
  static absl::StatusOr<std::unique_ptr<SidecarServer>> Create(SidecarFlags flags,
                                                               storage::StorageConfig storage,
                                                               std::function<void()> failed);
  ~SidecarServer();
  SidecarServer(const SidecarServer&) = delete;
  SidecarServer& operator=(const SidecarServer&) = delete;

  // Continues the uploads of an earlier process and serves all ports. With --enroll the workers'
  // port is served later, once there is a certificate: the trainer does not wait for the operator.
  // Fails if a port is taken.
  absl::Status Start();

  // Waits at most --grace for the end of a live capture, but at most 25 s while it waits for its
  // start or records. Then interrupts it, so that a later process can continue its upload, and ends
  // the gRPC servers. False if `failed` was called.
  bool Stop();

 private:
  SidecarServer(SidecarFlags flags, storage::StorageConfig storage, std::function<void()> failed,
                std::unique_ptr<spool::Spool> spool,
                std::unique_ptr<source::AgentDirectory> agent_directory);

  absl::Status ServeWorkers(std::shared_ptr<grpc::ServerCredentials> credentials);
  bool OnePortForAll() const;
  absl::Status ServeStockClients();
  absl::Status ServeMetrics();
  void StartEnrolling();
  void OnEnrolled(const enroll::Enroller::Enrolled& enrolled);  // On the enroller's thread.
  void WatchSigns(const enroll::Enroller::Enrolled& enrolled);
  http::Page Metrics(service::TpuMetrics& tpus);

  const SidecarFlags flags_;
  const std::string name_;  // The file name of this worker's traces.
  const std::function<void()> failed_;
  const SystemClock clock_;
  const std::unique_ptr<spool::Spool> spool_;  // Null without --spool-dir.
  service::SidecarMetrics metrics_;
  storage::Stores stores_;
  source::FrameworkSource framework_;
  const std::unique_ptr<AgentParts> agent_;  // Null without --agent-dir.
  source::CollectiveCounts collective_counts_;
  session::Source& source_;
  spool::UploadDelivery delivery_;
  session::CaptureRunner runner_;
  // Null without --agent-dir, and for a guest, which serves one program of the directory.
  const std::unique_ptr<stall::EvidenceCollector> evidence_;
  service::WorkerService worker_;
  service::GuardedWorker guarded_worker_;
  service::ProfilerService profiler_;

  // Servers come after everything that their handlers use, because members are destroyed in reverse
  // order. For the same reason the workers' server comes after the enroller, which owns the
  // identity that its clients are judged by.
  grpc::ResourceQuota quota_;  // Shared by both gRPC servers.
  std::optional<enroll::Enroller> enroller_;
  // Set by Start or by the enroller's thread; used by others once that thread has been stopped.
  std::unique_ptr<GrpcServer> worker_server_;
  std::unique_ptr<SignWatch> signs_;  // Set and used like worker_server_.
  std::atomic<int> worker_port_{0};   // 0 = not served yet.
  std::atomic<bool> has_failed_{false};
  std::unique_ptr<GrpcServer> stock_server_;  // Null without --compat-listen.
  std::unique_ptr<http::Server> http_;        // Null without --http-listen.
};

}  // namespace strobe
