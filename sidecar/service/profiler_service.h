// tensorflow.ProfilerService for stock profiler clients. Each profile is carried out as a capture
// of the sidecar, so that a stock client and the operator never record at the same time. Error
// codes and texts are those of TensorFlow's and JAX's own servers. Unlike those servers it can
// cancel or terminate a profile whose start is delayed, and it holds no lock in the trainer while
// it waits.
#pragma once
#include <atomic>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "collector/store/object_store.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/capture/capture_runner.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace strobe::service {

class ProfilerService final : public tensorflow::ProfilerService::Service {
 public:
  // All outlive the service.
  ProfilerService(const Clock& clock, session::CaptureRunner& runner, storage::StoreOpener& stores);

  grpc::Status Profile(grpc::ServerContext* context, const tensorflow::ProfileRequest* request,
                       tensorflow::ProfileResponse* response) override;
  // Always OK. Ends the running Profile of that session id early, also while its start is delayed.
  // TensorFlow's own servers remember it and end a later Profile of that session id, too; this one
  // does not.
  grpc::Status Terminate(grpc::ServerContext* context, const tensorflow::TerminateRequest* request,
                         tensorflow::TerminateResponse* response) override;
  grpc::Status Monitor(grpc::ServerContext* context, const tensorflow::MonitorRequest* request,
                       tensorflow::MonitorResponse* response) override;

 private:
  const Clock& clock_;
  session::CaptureRunner& runner_;
  storage::StoreOpener& stores_;
  std::atomic<unsigned> serial_{0};
  Mutex mutex_;
  // From the client's session id to our capture id, while Profile runs.
  std::multimap<std::string, std::string> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::service
