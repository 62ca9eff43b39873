// The Profile calls of one capture.
#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace strobe {

// A fresh connection each time: an idle sidecar then holds none and retries none, and a trainer
// that came back is found at once instead of after a back-off. Answers of more than `most_bytes`
// are refused before they are read.
std::shared_ptr<grpc::Channel> ConnectToProfiler(const std::string& address, int most_bytes);

// One call per process of the worker, all in flight at once. Not for several threads.
class ProfileCalls {
 public:
  struct Call {
    std::unique_ptr<tensorflow::ProfilerService::Stub> stub;
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    tensorflow::ProfileResponse response;
    grpc::Status status;
  };

  // As many requests as channels. Every call ends after `time_left`.
  ProfileCalls(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
               std::vector<tensorflow::ProfileRequest> requests, Nanos time_left);
  ~ProfileCalls();  // Cancels what has not ended.
  ProfileCalls(const ProfileCalls&) = delete;
  ProfileCalls& operator=(const ProfileCalls&) = delete;

  // True when all calls have ended.
  bool WaitFor(Nanos duration);
  void TryCancel();
  // Ends the sessions early; the Profile calls then answer with what was recorded.
  void Terminate();
  // In the order of the channels; only after all calls have ended.
  std::vector<std::unique_ptr<Call>>& calls() { return calls_; }

 private:
  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return pending_ == 0; }

  std::vector<std::unique_ptr<Call>> calls_;
  Mutex mutex_;
  std::size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace strobe
