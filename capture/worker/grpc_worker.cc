#include "capture/worker/grpc_worker.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "capture/answer_limits.h"
#include "capture/worker/clock_probe.h"
#include "capture/worker/deferred_deleter.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"
#include "common/grpc_tls/credentials.h"

namespace strobe::capture {
namespace {

using Stub = v1::Worker::Stub;

// A capture has five states, and a sidecar reports each of them once. The rest is room for sidecars
// of other versions.
constexpr int kMaxReports = 64;

// One unary call. It keeps all that gRPC uses alive until it has ended, so its caller may forget
// it; then the deleter deletes it.
template <typename Request, typename Response>
struct Call {
  std::shared_ptr<Stub> stub;
  grpc::ClientContext context;
  Request request;
  Response response;
  Worker::Callback<Response> done;
};

template <typename Request, typename Response>
using Method = void (Stub::async::*)(grpc::ClientContext*, const Request*, Response*,
                                     std::function<void(grpc::Status)>);

template <typename Request, typename Response>
void Send(DeferredDeleter& deleter, std::shared_ptr<Stub> stub, Method<Request, Response> method,
          const Request& request, Nanos timeout, Worker::Callback<Response> done) {
  std::shared_ptr<Call<Request, Response>> call = deleter.Own(new Call<Request, Response>());
  call->stub = std::move(stub);
  call->context.set_deadline(DeadlineIn(timeout));
  call->request = request;
  call->done = std::move(done);
  (call->stub->async()->*method)(&call->context, &call->request, &call->response,
                                 [call](grpc::Status status) {
                                   if (!status.ok()) return call->done(FromGrpc(status));
                                   BoundAnswer(call->response);
                                   call->done(std::move(call->response));
                                 });
}

// One Watch stream. Owns itself; the deleter deletes it when the stream has ended.
class Watcher final : public grpc::ClientReadReactor<v1::Report> {
 public:
  // What the caller of Watch holds; dropping it ends the stream.
  struct Handle {
    explicit Handle(std::shared_ptr<grpc::ClientContext> c) : context(std::move(c)) {}
    ~Handle() { context->TryCancel(); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    std::shared_ptr<grpc::ClientContext> context;
  };

  static std::shared_ptr<void> Start(DeferredDeleter& deleter, std::shared_ptr<Stub> stub,
                                     const std::string& capture_id,
                                     std::function<void(v1::Report)> report,
                                     std::function<void(absl::Status)> ended) {
    auto* watcher = new Watcher(deleter, std::move(stub), std::move(report), std::move(ended));
    deleter.Announce();
    watcher->request_.set_capture_id(capture_id);
    // The stream may end, and delete the watcher, as soon as it has been started.
    auto handle = std::make_shared<Handle>(watcher->context_);
    watcher->stub_->async()->Watch(watcher->context_.get(), &watcher->request_, watcher);
    watcher->StartRead(&watcher->report_);
    watcher->StartCall();
    return handle;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    // Every regular report is of a new state, so more reports than this are not regular.
    if (++reports_ > kMaxReports) return context_->TryCancel();
    BoundAnswer(report_);
    on_report_(std::move(report_));
    report_.Clear();
    StartRead(&report_);
  }
  void OnDone(const grpc::Status& status) override {
    if (reports_ > kMaxReports)
      on_ended_(absl::DataLossError(
          StrCat("the sidecar sent more than ", kMaxReports, " reports of one capture")));
    else
      on_ended_(FromGrpc(status));
    deleter_.Delete(this);
  }

 private:
  Watcher(DeferredDeleter& deleter, std::shared_ptr<Stub> stub,
          std::function<void(v1::Report)> report, std::function<void(absl::Status)> ended)
      : deleter_(deleter),
        stub_(std::move(stub)),
        on_report_(std::move(report)),
        on_ended_(std::move(ended)),
        context_(std::make_shared<grpc::ClientContext>()) {}

  DeferredDeleter& deleter_;
  const std::shared_ptr<Stub> stub_;
  const std::function<void(v1::Report)> on_report_;
  const std::function<void(absl::Status)> on_ended_;
  const std::shared_ptr<grpc::ClientContext> context_;
  v1::WatchRequest request_;
  v1::Report report_;
  int reports_ = 0;
};

class GrpcWorker final : public Worker {
 public:
  GrpcWorker(const Clock& clock, ProbeSlots& slots, DeferredDeleter& deleter,
             const std::shared_ptr<grpc::Channel>& channel, MakeChannel wide_channel)
      : clock_(clock),
        slots_(slots),
        deleter_(deleter),
        stub_(deleter.Own(v1::Worker::NewStub(channel).release())),
        wide_channel_(std::move(wide_channel)) {}

  void Check(const std::string& capture_id, Nanos timeout, Callback<Preflight> done) override {
    // Describe and the clock probe run side by side; the one that ends last calls `done`.
    struct Both {
      Mutex mutex;
      Preflight preflight;
      absl::Status describe;
      int missing = 2;
      MonoTime began{};
      Callback<Preflight> done;
    };
    auto both = std::make_shared<Both>();
    both->began = clock_.MonoNow();
    both->done = std::move(done);
    const auto finish = [both, &clock = clock_] {
      {
        MutexLock lock(&both->mutex);
        if (--both->missing > 0) return;
        both->preflight.round_trip = clock.MonoNow() - both->began;
      }
      if (!both->describe.ok())
        both->done(both->describe);
      else
        both->done(std::move(both->preflight));
    };
    v1::DescribeRequest request;
    request.set_capture_id(capture_id);
    Send<v1::DescribeRequest, v1::DescribeResponse>(
        deleter_, stub_, &Stub::async::Describe, request, timeout,
        [both, finish](absl::StatusOr<v1::DescribeResponse> answer) {
          {
            MutexLock lock(&both->mutex);
            if (answer.ok())
              both->preflight.description = *std::move(answer);
            else
              both->describe = answer.status();
          }
          finish();
        });
    ProbeClock(clock_, deleter_, stub_, timeout,
               [both, finish](absl::StatusOr<ClockEstimate> estimate) {
                 {
                   MutexLock lock(&both->mutex);
                   if (estimate.ok()) both->preflight.clock = *estimate;
                 }
                 finish();
               });
  }

  void MeasureClock(Nanos timeout, Callback<ClockEstimate> done) override {
    slots_.Take([&clock = clock_, &deleter = deleter_, stub = stub_, timeout,
                 done = std::move(done)](ProbeSlots::Slot slot) {
      ProbeClock(clock, deleter, stub, timeout,
                 [slot = std::move(slot), done](absl::StatusOr<ClockEstimate> estimate) mutable {
                   slot.reset();
                   done(std::move(estimate));
                 });
    });
  }

  void Arm(const v1::CapturePlan& plan, Nanos timeout, Callback<v1::ArmResponse> done) override {
    v1::ArmRequest request;
    *request.mutable_plan() = plan;
    Send<v1::ArmRequest, v1::ArmResponse>(deleter_, stub_, &Stub::async::Arm, request, timeout,
                                          std::move(done));
  }

  std::shared_ptr<void> Watch(const std::string& capture_id, std::function<void(v1::Report)> report,
                              std::function<void(absl::Status)> ended) override {
    return Watcher::Start(deleter_, stub_, capture_id, std::move(report), std::move(ended));
  }

  void Cancel(const v1::CancelRequest& request, Nanos timeout,
              Callback<v1::CancelResponse> done) override {
    Send<v1::CancelRequest, v1::CancelResponse>(deleter_, stub_, &Stub::async::Cancel, request,
                                                timeout, std::move(done));
  }

  void ReadDigest(const v1::ReadDigestRequest& request, Nanos timeout,
                  Callback<v1::ReadDigestResponse> done) override {
    Send<v1::ReadDigestRequest, v1::ReadDigestResponse>(deleter_, stub_, &Stub::async::ReadDigest,
                                                        request, timeout, std::move(done));
  }

  void ReadEvidence(const v1::ReadEvidenceRequest& request, Nanos timeout,
                    Callback<v1::ReadEvidenceResponse> done) override {
    // Evidence is larger than any other answer may be, so it comes over a channel of its own.
    const std::shared_ptr<Stub> stub =
        wide_channel_ ? deleter_.Own(v1::Worker::NewStub(wide_channel_()).release()) : stub_;
    Send<v1::ReadEvidenceRequest, v1::ReadEvidenceResponse>(
        deleter_, stub, &Stub::async::ReadEvidence, request, timeout, std::move(done));
  }

  void Publish(const v1::PublishRequest& request, Nanos timeout,
               Callback<v1::PublishResponse> done) override {
    Send<v1::PublishRequest, v1::PublishResponse>(deleter_, stub_, &Stub::async::Publish, request,
                                                  timeout, std::move(done));
  }

  void Reclaim(const v1::ReclaimRequest& request, Nanos timeout,
               Callback<v1::ReclaimResponse> done) override {
    Send<v1::ReclaimRequest, v1::ReclaimResponse>(deleter_, stub_, &Stub::async::Reclaim, request,
                                                  timeout, std::move(done));
  }

 private:
  const Clock& clock_;
  ProbeSlots& slots_;
  DeferredDeleter& deleter_;
  const std::shared_ptr<Stub> stub_;
  const MakeChannel wide_channel_;
};

}  // namespace

GrpcWorkerConnector::GrpcWorkerConnector(const Clock& clock, Credentials credentials)
    : clock_(clock), credentials_(std::move(credentials)) {}

std::shared_ptr<Worker> GrpcWorkerConnector::Connect(const Target& target) {
  grpc::ChannelArguments arguments;
  // Each capture makes new connections, so that no backoff of an earlier one delays it. Proxies
  // from the environment are for the way out of a cluster, not to its pods.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // This is also how long one attempt to connect may take: on a slow link several round trips.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 8000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A capture of thousands of workers has as many channels, so their tracing is off to save memory.
  // GRPC_ARG_MINIMAL_STACK must stay off: it removes the filters that limit an answer's size and
  // that end a call at its deadline (seen with 1.51).
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  arguments.SetInt(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // Notices within 20 s that a peer's machine is gone, even while a Watch is quiet.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 15000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Only TLS uses this name.
  if (!target.pod_uid.empty())
    arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, PodName(target.pod_uid));
  const std::shared_ptr<grpc::ChannelCredentials> credentials = credentials_();
  // gRPC takes the first limit in the arguments of a channel, so neither has both.
  MakeChannel wide_channel = [address = target.address, credentials, arguments]() mutable {
    arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, int{kMaxEvidenceAnswerBytes});
    return grpc::CreateCustomChannel(address, credentials, arguments);
  };
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, int{kMaxAnswerBytes});
  return WorkerOver(clock_, slots_, deleter_,
                    grpc::CreateCustomChannel(target.address, credentials, arguments),
                    std::move(wide_channel));
}

std::shared_ptr<Worker> WorkerOver(const Clock& clock, ProbeSlots& slots, DeferredDeleter& deleter,
                                   const std::shared_ptr<grpc::Channel>& channel,
                                   MakeChannel wide_channel) {
  return std::make_shared<GrpcWorker>(clock, slots, deleter, channel, std::move(wide_channel));
}

std::shared_ptr<grpc::ChannelCredentials> PlaintextCredentials() {
  return grpc::InsecureChannelCredentials();
}

}  // namespace strobe::capture
