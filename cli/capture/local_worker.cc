#include "cli/capture/local_worker.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "capture/worker/grpc_worker.h"
#include "common/base/mutex.h"
#include "common/text/ip_text.h"
#include "sidecar/capture/capture_runner.h"
#include "sidecar/service/worker_service.h"
#include "sidecar/source/framework/framework_source.h"
#include "sidecar/spool/upload_delivery.h"

namespace strobe::cli {
namespace {

// The sidecar that runs in pods, here in this process and reached without a port.
class LocalSidecar {
 public:
  LocalSidecar(const Clock& clock, storage::StoreOpener& stores, capture::ProbeSlots& slots,
               capture::DeferredDeleter& deleter, const capture::Target& target,
               const source::ServerRisks& risks)
      : source_(clock, {.addresses = {target.address}, .risks = risks}),
        delivery_(clock, stores, nullptr),
        runner_(clock, source_, delivery_),
        service_(target.file, clock, runner_, source_, stores) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    worker_ = capture::WorkerOver(clock, slots, deleter,
                                  server_->InProcessChannel(grpc::ChannelArguments()));
  }
  ~LocalSidecar() {
    worker_.reset();
    service_.Stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  }
  LocalSidecar(const LocalSidecar&) = delete;
  LocalSidecar& operator=(const LocalSidecar&) = delete;

  capture::Worker& worker() { return *worker_; }

 private:
  source::FrameworkSource source_;
  spool::UploadDelivery delivery_;
  session::CaptureRunner runner_;
  service::WorkerService service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<capture::Worker> worker_;
};

// A sidecar, until its first answer shows that it is a stock profiler server.
class MixedWorker final : public capture::Worker, public std::enable_shared_from_this<MixedWorker> {
 public:
  MixedWorker(const Clock& clock, storage::StoreOpener& stores, capture::ProbeSlots& slots,
              capture::DeferredDeleter& deleter, capture::Target target,
              const source::ServerRisks& risks, std::shared_ptr<capture::Worker> sidecar)
      : clock_(clock),
        stores_(stores),
        slots_(slots),
        deleter_(deleter),
        target_(std::move(target)),
        risks_(risks),
        remote_(std::move(sidecar)) {}

  void Check(const std::string& capture_id, Nanos timeout,
             Callback<capture::Preflight> done) override {
    remote_->Check(capture_id, timeout,
                   [self = shared_from_this(), capture_id, timeout,
                    done = std::move(done)](absl::StatusOr<capture::Preflight> answer) {
                     if (answer.ok() || !absl::IsUnimplemented(answer.status()))
                       return done(std::move(answer));
                     self->CheckStock(capture_id, timeout, done);
                   });
  }
  void MeasureClock(Nanos timeout, Callback<capture::ClockEstimate> done) override {
    chosen().MeasureClock(timeout, std::move(done));
  }
  void Arm(const v1::CapturePlan& plan, Nanos timeout, Callback<v1::ArmResponse> done) override {
    chosen().Arm(plan, timeout, std::move(done));
  }
  std::shared_ptr<void> Watch(const std::string& capture_id, std::function<void(v1::Report)> report,
                              std::function<void(absl::Status)> ended) override {
    return chosen().Watch(capture_id, std::move(report), std::move(ended));
  }
  void Cancel(const v1::CancelRequest& request, Nanos timeout,
              Callback<v1::CancelResponse> done) override {
    chosen().Cancel(request, timeout, std::move(done));
  }
  void ReadDigest(const v1::ReadDigestRequest& request, Nanos timeout,
                  Callback<v1::ReadDigestResponse> done) override {
    chosen().ReadDigest(request, timeout, std::move(done));
  }
  void ReadEvidence(const v1::ReadEvidenceRequest& request, Nanos timeout,
                    Callback<v1::ReadEvidenceResponse> done) override {
    chosen().ReadEvidence(request, timeout, std::move(done));
  }
  void Publish(const v1::PublishRequest& request, Nanos timeout,
               Callback<v1::PublishResponse> done) override {
    chosen().Publish(request, timeout, std::move(done));
  }
  void Reclaim(const v1::ReclaimRequest& request, Nanos timeout,
               Callback<v1::ReclaimResponse> done) override {
    chosen().Reclaim(request, timeout, std::move(done));
  }

 private:
  void CheckStock(const std::string& capture_id, Nanos timeout, Callback<capture::Preflight> done) {
    {
      MutexLock lock(&mutex_);
      local_ = std::make_unique<LocalSidecar>(clock_, stores_, slots_, deleter_, target_, risks_);
    }
    // The probe measured this machine's clock. That is the trainer's clock only if it runs here
    // too.
    const bool same_clock = IsLoopback(target_.address);
    chosen().Check(capture_id, timeout,
                   [done = std::move(done), same_clock](absl::StatusOr<capture::Preflight> answer) {
                     if (answer.ok() && !same_clock) answer->clock.reset();
                     done(std::move(answer));
                   });
  }
  capture::Worker& chosen() {
    MutexLock lock(&mutex_);
    return local_ != nullptr ? local_->worker() : *remote_;
  }

  const Clock& clock_;
  storage::StoreOpener& stores_;
  capture::ProbeSlots& slots_;
  capture::DeferredDeleter& deleter_;
  const capture::Target target_;
  const source::ServerRisks risks_;
  const std::shared_ptr<capture::Worker> remote_;
  Mutex mutex_;
  std::unique_ptr<LocalSidecar> local_ ABSL_GUARDED_BY(mutex_);  // Set once.
};

}  // namespace

std::shared_ptr<capture::Worker> MixedConnector::Connect(const capture::Target& target) {
  return deleter_.Own(new MixedWorker(clock_, stores_, slots_, deleter_, target, risks_,
                                      sidecars_.Connect(target)));
}

}  // namespace strobe::cli
