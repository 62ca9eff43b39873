// A profiler server that speaks the real protocol and shows, on demand, behaviour that a real
// server cannot be made to show: be an old version, refuse, answer with invalid bytes, end early,
// use another clock, or have a TPU.
#pragma once
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "tensorflow/profiler_service.grpc.pb.h"
#include "tests/fakes/fake_trace.h"

namespace strobe {

class FakeProfilerServer {
 public:
  enum class From { kBefore2026, kWithoutStop, kNow };

  explicit FakeProfilerServer(From from = From::kNow) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(from == From::kNow           ? static_cast<grpc::Service*>(&new_)
                            : from == From::kWithoutStop ? static_cast<grpc::Service*>(&early_)
                                                         : &old_);
    if (from != From::kNow) builder.RegisterCallbackGenericService(&unimplemented_);
    server_ = builder.BuildAndStart();
  }
  ~FakeProfilerServer() { server_->Shutdown(std::chrono::system_clock::now()); }
  FakeProfilerServer(const FakeProfilerServer&) = delete;
  FakeProfilerServer& operator=(const FakeProfilerServer&) = delete;
  std::string address() const { return "localhost:" + std::to_string(port_); }

  std::atomic<bool> writes_file{false};      // Ignores emit_xspace, as before 2025-09.
  std::atomic<bool> nonsense{false};         // Answers with bytes that are not a trace.
  std::atomic<bool> empty{false};            // Records nothing.
  std::atomic<const Clock*> clock{nullptr};  // Used instead of the machine's clock.
  std::atomic<int> profiles{0};
  std::atomic<bool> recording{false};  // Set when recording has begun.
  std::atomic<bool> terminated{false};
  std::atomic<bool> tpu_idles{false};      // Its snapshots have no activity of the TPU.
  std::atomic<bool> loses_session{false};  // Its next snapshot fails and ends the session.
  std::atomic<int> sessions{0};            // Begun sessions of continuous profiling, so far.
  bool records_always() const {
    MutexLock lock(&mutex_);
    return session_.has_value();
  }
  tensorflow::ProfileRequest session() const {
    MutexLock lock(&mutex_);
    return session_.value_or(tensorflow::ProfileRequest());
  }
  // As another client does it. False if a session runs already.
  bool BeginSession(const tensorflow::ProfileRequest& request) {
    MutexLock lock(&mutex_);
    if (session_) return false;
    session_ = request;
    session_began_ns_ = ToUnixNanos(SystemClock().WallNow());
    ++sessions;
    return true;
  }
  void EndSession() {
    MutexLock lock(&mutex_);
    session_.reset();
  }
  void Refuse(grpc::Status status) {
    MutexLock lock(&mutex_);
    refusal_ = std::move(status);
  }
  tensorflow::ProfileRequest asked() const {
    MutexLock lock(&mutex_);
    return asked_;
  }

 private:
  template <typename Base>
  class Service final : public Base {
   public:
    explicit Service(FakeProfilerServer& server) : server_(server) {}
    grpc::Status Profile(grpc::ServerContext* context, const tensorflow::ProfileRequest* request,
                         tensorflow::ProfileResponse* response) override {
      return server_.Profile(*context, *request, *response);
    }
    grpc::Status Terminate(grpc::ServerContext*, const tensorflow::TerminateRequest*,
                           tensorflow::TerminateResponse*) override {
      server_.terminated = true;
      return grpc::Status::OK;
    }
    grpc::Status StartContinuousProfiling(grpc::ServerContext*,
                                          const tensorflow::ProfileRequest* request,
                                          tensorflow::ContinuousProfilingResponse*) override {
      if (server_.BeginSession(*request)) return grpc::Status::OK;
      return {grpc::ALREADY_EXISTS, "A profiling session is already running."};
    }
    grpc::Status GetSnapshot(grpc::ServerContext*, const tensorflow::GetSnapshotRequest*,
                             tensorflow::ProfileResponse* response) override {
      return server_.GetSnapshot(*response);
    }
    grpc::Status StopContinuousProfiling(grpc::ServerContext*,
                                         const tensorflow::StopContinuousProfilingRequest*,
                                         tensorflow::StopContinuousProfilingResponse*) override {
      if (!server_.records_always()) return NoSession();
      server_.EndSession();
      return grpc::Status::OK;
    }

   private:
    FakeProfilerServer& server_;
  };

  static grpc::Status NoSession() {
    return {grpc::NOT_FOUND, "No continuous profiling session found."};
  }

  // Like real servers, begins anew after each snapshot.
  grpc::Status GetSnapshot(tensorflow::ProfileResponse& response) {
    MutexLock lock(&mutex_);
    if (!session_) return NoSession();
    const std::int64_t now = ToUnixNanos(SystemClock().WallNow());
    tensorflow::profiler::XSpace space = FakeTrace(session_began_ns_, now, 0);
    if (!tpu_idles) AddFakeTpu(now - session_began_ns_, space);
    if (loses_session) {
      session_.reset();
      return {grpc::INTERNAL, "Failed to collect profile data"};
    }
    session_began_ns_ = now;
    response.set_xspace(space.SerializeAsString());
    return grpc::Status::OK;
  }

  grpc::Status Profile(grpc::ServerContext& context, const tensorflow::ProfileRequest& request,
                       tensorflow::ProfileResponse& response) {
    ++profiles;
    {
      MutexLock lock(&mutex_);
      asked_ = request;
      if (!refusal_.ok()) return refusal_;
      if (session_) return {grpc::INTERNAL, "Another profiling session active."};
    }
    const SystemClock machine;
    const Clock* const other = clock;
    const Clock& now = other != nullptr ? *other : machine;
    // Like real servers, computes the delay once and measures the duration by the wall clock.
    const auto start_asked = static_cast<std::int64_t>(request.opts().start_timestamp_ns());
    const MonoTime start_at = now.MonoNow() + (FromUnixNanos(start_asked) - now.WallNow());
    const auto goes_on = [&] { return !context.IsCancelled() && !terminated; };
    const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
    while (goes_on() && now.MonoNow() < start_at) nap();
    const WallTime start = now.WallNow();
    recording = true;
    const Nanos duration = std::chrono::milliseconds(request.opts().duration_ms());
    while (goes_on() && now.WallNow() < start + duration) nap();
    if (context.IsCancelled()) return grpc::Status::CANCELLED;
    const std::string trace =
        nonsense ? "\x0a\xff"
                 : FakeTrace(ToUnixNanos(start), ToUnixNanos(now.WallNow()), empty ? 0 : 1)
                       .SerializeAsString();
    if (!writes_file) {
      if (request.emit_xspace()) response.set_xspace(trace);
      return grpc::Status::OK;
    }
    const std::string directory = request.repository_root() + "/" + request.session_id();
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) return {grpc::INTERNAL, request.repository_root() + "; " + error.message()};
    std::ofstream(directory + "/some-host.xplane.pb", std::ios::binary) << trace;
    return grpc::Status::OK;
  }

  Service<tensorflow::ProfilerService::Service> new_{*this};
  template <typename Base>
  using WithoutStop = tensorflow::ProfilerService::WithGenericMethod_StopContinuousProfiling<Base>;
  Service<WithoutStop<tensorflow::ProfilerService::Service>> early_{*this};
  Service<tensorflow::ProfilerService::WithGenericMethod_StartContinuousProfiling<
      tensorflow::ProfilerService::WithGenericMethod_GetSnapshot<
          WithoutStop<tensorflow::ProfilerService::Service>>>>
      old_{*this};
  grpc::CallbackGenericService unimplemented_;
  int port_ = 0;
  mutable Mutex mutex_;
  grpc::Status refusal_ ABSL_GUARDED_BY(mutex_);
  tensorflow::ProfileRequest asked_ ABSL_GUARDED_BY(mutex_);
  std::optional<tensorflow::ProfileRequest> session_ ABSL_GUARDED_BY(mutex_);
  std::int64_t session_began_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace strobe
