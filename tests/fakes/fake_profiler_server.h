// A profiler server with the wire behaviour of those in the field, for what a real one cannot be
// made to do on demand: be from before 2025-09, refuse, answer nonsense, die.
#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "collector/base/clock.h"
#include "tensorflow/profiler_service.grpc.pb.h"
#include "tests/fakes/fake_trace.h"

namespace strobe {

class FakeProfilerServer final : public tensorflow::ProfilerService::Service {
 public:
  FakeProfilerServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeProfilerServer() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return "localhost:" + std::to_string(port_); }

  grpc::Status Profile(grpc::ServerContext* context, const tensorflow::ProfileRequest* request,
                       tensorflow::ProfileResponse* response) override {
    ++profiles;
    if (!refusal.ok()) return refusal;
    const SystemClock clock;
    const auto until = [&](std::int64_t time) {
      while (ToUnixNanos(clock.WallNow()) < time && !context->IsCancelled() && !terminated)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    until(static_cast<std::int64_t>(request->opts().start_timestamp_ns()));
    const std::int64_t start = ToUnixNanos(clock.WallNow());
    until(start + static_cast<std::int64_t>(request->opts().duration_ms()) * 1'000'000);
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    const std::string trace =
        nonsense ? "\x0a\xff" : FakeTrace(start, ToUnixNanos(clock.WallNow())).SerializeAsString();
    if (old) {
      const std::string directory = request->repository_root() + "/" + request->session_id();
      std::filesystem::create_directories(directory);
      std::ofstream(directory + "/some-host.xplane.pb", std::ios::binary) << trace;
    } else if (request->emit_xspace()) {
      response->set_xspace(trace);
    }
    return grpc::Status::OK;
  }
  grpc::Status Terminate(grpc::ServerContext*, const tensorflow::TerminateRequest*,
                         tensorflow::TerminateResponse*) override {
    terminated = true;
    return grpc::Status::OK;
  }

  bool old = false;       // Writes the file itself and knows no emit_xspace.
  bool nonsense = false;  // Answers with bytes that are no trace.
  grpc::Status refusal = grpc::Status::OK;
  std::atomic<int> profiles{0};
  std::atomic<bool> terminated{false};

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace strobe
