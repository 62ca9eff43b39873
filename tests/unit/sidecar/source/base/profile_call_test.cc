#include "sidecar/source/base/profile_call.h"

#include <gmock/gmock.h>
#include <grpcpp/support/status.h>

#include "common/base/clock.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

v1::CapturePlan Plan() {
  v1::CapturePlan plan;
  plan.set_capture_id("uid-1");
  plan.set_worker("pod-0");
  plan.set_instant_ns(Nanos(1000s).count());
  plan.set_duration_ns(Nanos(100ms).count());
  plan.set_guard_ns(Nanos(5ms).count());
  plan.mutable_tracers()->set_host(2);
  return plan;
}

TEST(MakeProfileRequest, FollowsTheRecipeOfTheFacts) {
  const tensorflow::ProfileRequest request = MakeProfileRequest(Plan(), 0, "/shared");
  EXPECT_EQ(request.opts().version(), 1u) << "0 would replace every option by a default";
  EXPECT_TRUE(request.opts().raise_error_on_start_failure());
  EXPECT_TRUE(request.emit_xspace());
  EXPECT_EQ(request.opts().advanced_configuration_size(), 0)
      << "an unknown key kills the GPU tracer";
  EXPECT_EQ(request.host_name(), request.opts().override_hostname());
  EXPECT_EQ(Nanos{request.opts().start_timestamp_ns()}, 1000s - 5ms)
      << "the guard comes before the instant";
  EXPECT_EQ(request.opts().duration_ms(), 111u)
      << "both guards, and the millisecond a server may lose";
}

TEST(MakeProfileRequest, ServersKnowNoModesOfDevices) {
  v1::CapturePlan plan = Plan();
  for (const std::uint32_t mode : {1u, 2u, 5u}) {
    plan.mutable_tracers()->set_device(mode);
    EXPECT_EQ(MakeProfileRequest(plan, 0, "").opts().device_tracer_level(), 1u);
  }
  plan.mutable_tracers()->set_device(0);
  EXPECT_EQ(MakeProfileRequest(plan, 0, "").opts().device_tracer_level(), 0u);
}

TEST(MakeProfileRequest, SessionIdsTellProcessesApart) {
  EXPECT_NE(MakeProfileRequest(Plan(), 0, "").session_id(),
            MakeProfileRequest(Plan(), 1, "").session_id());
}

TEST(JudgeCallFailure, TellsTheCausesApart) {
  const auto outcome = [](int code, std::string_view text) {
    return JudgeCallFailure(code, text, "localhost:9012").outcome;
  };
  EXPECT_EQ(outcome(grpc::INTERNAL, "Another profiling session active."), Outcome::kBusy);
  EXPECT_EQ(outcome(grpc::INTERNAL, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
            Outcome::kPermissionDenied);
  EXPECT_EQ(outcome(grpc::INTERNAL, "bad tracer"), Outcome::kProfilerStartFailed);
  EXPECT_EQ(outcome(grpc::UNAVAILABLE, "failed to connect to all addresses"), Outcome::kNoSource);
  EXPECT_EQ(outcome(grpc::UNAVAILABLE, "Socket closed"), Outcome::kWorkerLost);
  EXPECT_EQ(outcome(grpc::DEADLINE_EXCEEDED, ""), Outcome::kDeadlineExceeded);
  EXPECT_EQ(outcome(grpc::UNIMPLEMENTED, ""), Outcome::kVersionMismatch);
  EXPECT_EQ(outcome(grpc::RESOURCE_EXHAUSTED, "larger than max"), Outcome::kTruncated);
  EXPECT_THAT(JudgeCallFailure(grpc::INTERNAL, "bad tracer", "localhost:9012").message,
              HasSubstr("bad tracer"));
}

}  // namespace
}  // namespace strobe::source
