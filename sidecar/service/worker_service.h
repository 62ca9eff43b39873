// strobe.v1.Worker over one CaptureRunner. Safe for concurrent use. Every call ends within its
// deadline or when the client goes away.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/store/object_store.h"
#include "common/base/clock.h"
#include "sidecar/capture/capture_runner.h"
#include "strobe/v1/worker.grpc.pb.h"

namespace strobe::service {

// Looks at the worker's processes; see Worker.ReadEvidence. Ends early once the second function
// returns false.
using EvidenceReader = std::function<absl::StatusOr<v1::ReadEvidenceResponse>(
    const v1::ReadEvidenceRequest& request, const std::function<bool()>& is_wanted)>;

class WorkerService final : public v1::Worker::Service {
 public:
  // All outlive the service. `name` is the default file name of this worker's traces. `spool_free`
  // returns how many more bytes of traces the spool can hold; null when there is no spool. A
  // capture can be limited to one of `containers`. Without `evidence`, ReadEvidence is refused.
  WorkerService(std::string name, const Clock& clock, session::CaptureRunner& runner,
                session::Source& source, storage::StoreOpener& stores,
                std::function<std::uint64_t()> spool_free = nullptr,
                std::vector<std::string> containers = {}, EvidenceReader evidence = nullptr);

  // Ends Watch streams within 200 ms, so that the server can shut down.
  void Stop() { stopping_ = true; }

  grpc::Status Describe(grpc::ServerContext* context, const v1::DescribeRequest* request,
                        v1::DescribeResponse* response) override;
  grpc::Status ProbeClock(grpc::ServerContext* context,
                          grpc::ServerReaderWriter<v1::ClockPong, v1::ClockPing>* stream) override;
  grpc::Status Arm(grpc::ServerContext* context, const v1::ArmRequest* request,
                   v1::ArmResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::Report>* writer) override;
  grpc::Status Cancel(grpc::ServerContext* context, const v1::CancelRequest* request,
                      v1::CancelResponse* response) override;
  grpc::Status ReadDigest(grpc::ServerContext* context, const v1::ReadDigestRequest* request,
                          v1::ReadDigestResponse* response) override;
  grpc::Status ReadEvidence(grpc::ServerContext* context, const v1::ReadEvidenceRequest* request,
                            v1::ReadEvidenceResponse* response) override;
  grpc::Status Publish(grpc::ServerContext* context, const v1::PublishRequest* request,
                       v1::PublishResponse* response) override;
  grpc::Status Reclaim(grpc::ServerContext* context, const v1::ReclaimRequest* request,
                       v1::ReclaimResponse* response) override;

 private:
  // Why the plan's container cannot be recorded alone; empty when it can, or none is named.
  std::string WhyNotContainer(const v1::CapturePlan& plan) const;
  void PublishReport(const grpc::ServerContext& context, const v1::PublishRequest& request,
                     const storage::Logdir& logdir, v1::PublishResponse& response) const;
  void PublishEvidence(const grpc::ServerContext& context, const v1::PublishRequest& request,
                       const storage::Logdir& logdir, v1::PublishResponse& response) const;

  const std::string name_;
  const Clock& clock_;
  session::CaptureRunner& runner_;
  session::Source& source_;
  storage::StoreOpener& stores_;
  const std::function<std::uint64_t()> spool_free_;  // May be null.
  const std::vector<std::string> containers_;
  const EvidenceReader evidence_;  // May be null.
  std::atomic<bool> stopping_{false};
};

}  // namespace strobe::service
