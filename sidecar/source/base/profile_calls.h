// Runs the Profile calls of one capture.
#pragma once
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace strobe::source {

// Opens a new connection for each capture. An idle sidecar then holds and retries none, and a
// trainer that was restarted is reached at once, without a back-off. Answers of more than
// `max_bytes` are refused before they are read.
std::shared_ptr<grpc::Channel> ConnectToProfiler(const std::string& address, int max_bytes);

// One call per process of the worker, all at the same time. Not thread-safe.
class ProfileCalls {
 public:
  struct Call {
    std::unique_ptr<tensorflow::ProfilerService::Stub> stub;
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    // A serialized ProfileResponse; see TakeXSpace. If gRPC parsed it, the trace would be in memory
    // twice.
    grpc::ByteBuffer response;
    grpc::Status status;
    std::int64_t ended_ns = 0;  // When it ended, by MonotonicNow.
  };

  static constexpr char kProfile[] = "/tensorflow.ProfilerService/Profile";
  static constexpr char kGetSnapshot[] = "/tensorflow.ProfilerService/GetSnapshot";

  // Requires as many requests as channels. Every call ends after `time_left`. An empty request is
  // valid for either method, and both answer with a ProfileResponse.
  ProfileCalls(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
               std::vector<tensorflow::ProfileRequest> requests, Nanos time_left,
               const char* method = kProfile);
  ~ProfileCalls();  // Cancels calls that have not ended.
  ProfileCalls(const ProfileCalls&) = delete;
  ProfileCalls& operator=(const ProfileCalls&) = delete;

  // Waits for at most `duration`. True if all calls have ended.
  bool WaitFor(Nanos duration);
  void TryCancel();
  // Ends the sessions early. The Profile calls then return what was recorded.
  void Terminate();
  // The calls in the order of the channels. Call it only after all calls have ended.
  std::vector<std::unique_ptr<Call>>& calls() { return calls_; }

 private:
  bool AllDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return pending_ == 0; }

  std::vector<std::unique_ptr<Call>> calls_;
  Mutex mutex_;
  std::size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace strobe::source
