// The compatibility face: tensorflow.ProfilerService as stock clients know it, carried out as a
// capture of the sidecar, so that it and the operator never record at once. Codes and texts are
// those of the servers in the field; better than they are in two ways: a delayed start can be
// cancelled or terminated, and waiting holds no lock in the trainer.
#pragma once
#include <atomic>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "collector/logdir/object_store.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/session/capture_runner.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace strobe {

class ProfilerFace final : public tensorflow::ProfilerService::Service {
 public:
  // All outlive the face.
  ProfilerFace(const Clock& clock, session::CaptureRunner& runner, StoreOpener& stores);

  grpc::Status Profile(grpc::ServerContext* context, const tensorflow::ProfileRequest* request,
                       tensorflow::ProfileResponse* response) override;
  // Always OK. Ends the running Profile of that session id early, also during its delay; unlike the
  // servers in the field it leaves nothing behind that would end a later one.
  grpc::Status Terminate(grpc::ServerContext* context, const tensorflow::TerminateRequest* request,
                         tensorflow::TerminateResponse* response) override;
  grpc::Status Monitor(grpc::ServerContext* context, const tensorflow::MonitorRequest* request,
                       tensorflow::MonitorResponse* response) override;

 private:
  const Clock& clock_;
  session::CaptureRunner& runner_;
  StoreOpener& stores_;
  std::atomic<unsigned> serial_{0};
  Mutex mutex_;
  // Session id of the client to our capture id, while Profile runs.
  std::multimap<std::string, std::string> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe
