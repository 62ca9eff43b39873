#include "sidecar/source/base/profile_calls.h"

#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <utility>

#include "sidecar/source/base/recording_times.h"

namespace strobe::source {

using tensorflow::ProfilerService;

std::shared_ptr<grpc::Channel> ConnectToProfiler(const std::string& address, int max_bytes) {
  grpc::ChannelArguments arguments;
  // Does not share connections, and their back-off, with earlier channels to the same address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The profiler server is on the same pod network, where a proxy of the environment must not be
  // used.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(max_bytes);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

ProfileCalls::ProfileCalls(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                           std::vector<tensorflow::ProfileRequest> requests, Nanos time_left,
                           const char* method) {
  for (std::size_t i = 0; i < channels.size(); ++i) {
    auto call = std::make_unique<Call>();
    call->stub = ProfilerService::NewStub(channels[i]);
    call->context.set_deadline(DeadlineIn(time_left));
    call->request = std::move(requests[i]);
    calls_.push_back(std::move(call));
  }
  {
    MutexLock lock(&mutex_);
    pending_ = calls_.size();
  }
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    Call& call = *calls_[i];
    grpc::TemplatedGenericStub<tensorflow::ProfileRequest, grpc::ByteBuffer> stub(channels[i]);
    stub.UnaryCall(&call.context, method, grpc::StubOptions(), &call.request, &call.response,
                   [this, &call](grpc::Status status) {
                     MutexLock lock(&mutex_);
                     call.ended_ns = MonotonicNow();
                     call.status = std::move(status);
                     --pending_;
                   });
  }
}

// Waits for the callbacks, because they refer to this object. Cancelling keeps the wait short.
ProfileCalls::~ProfileCalls() {
  TryCancel();
  MutexLock lock(&mutex_);
  mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return AllDone(); });
}

bool ProfileCalls::WaitFor(Nanos duration) {
  MutexLock lock(&mutex_);
  return mutex_.AwaitFor(duration,
                         [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return AllDone(); });
}

void ProfileCalls::TryCancel() {
  for (const auto& call : calls_) call->context.TryCancel();
}

void ProfileCalls::Terminate() {
  struct Ending {
    grpc::ClientContext context;
    tensorflow::TerminateRequest request;
    tensorflow::TerminateResponse response;
  };
  std::vector<Ending> endings(calls_.size());
  Mutex mutex;
  std::size_t pending = calls_.size();
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    Ending& ending = endings[i];
    ending.context.set_deadline(DeadlineIn(std::chrono::seconds(1)));
    ending.request.set_session_id(calls_[i]->request.session_id());
    calls_[i]->stub->async()->Terminate(&ending.context, &ending.request, &ending.response,
                                        [&](const grpc::Status&) {
                                          MutexLock lock(&mutex);
                                          --pending;
                                        });
  }
  MutexLock lock(&mutex);
  mutex.Await([&] { return pending == 0; });
}

}  // namespace strobe::source
