#include "sidecar/source/base/profile_call.h"

#include <grpcpp/support/status.h>

#include "common/base/strings.h"

namespace strobe::source {
namespace {

constexpr std::int64_t kNanosPerMilli = 1'000'000;

}  // namespace

std::string SessionId(const v1::CapturePlan& plan, std::size_t index) {
  return StrCat(plan.capture_id(), "-p", index);
}

tensorflow::ProfileRequest MakeProfileRequest(const v1::CapturePlan& plan, std::size_t index,
                                              std::string_view repository_root) {
  const std::int64_t length = plan.duration_ns() + 2 * plan.guard_ns();
  // The server counts whole milliseconds since its start and may stop up to one early.
  const auto duration_ms =
      static_cast<std::uint64_t>((length + kNanosPerMilli - 1) / kNanosPerMilli + 1);
  tensorflow::ProfileRequest request;
  request.set_duration_ms(duration_ms);
  request.set_max_events(1'000'000);
  request.set_session_id(SessionId(plan, index));
  request.set_host_name(plan.worker());
  request.set_repository_root(
      std::string(repository_root.empty() ? kNoRepository : repository_root));
  request.set_emit_xspace(true);
  tensorflow::ProfileOptions& options = *request.mutable_opts();
  options.set_version(1);
  options.set_start_timestamp_ns(static_cast<std::uint64_t>(plan.instant_ns() - plan.guard_ns()));
  options.set_duration_ms(duration_ms);
  options.set_host_tracer_level(plan.tracers().host());
  if (plan.tracers().host_filter() != 0)
    options.mutable_trace_options()->set_host_traceme_filter_mask(plan.tracers().host_filter());
  // Modes are the agent's and PyTorch's.
  options.set_device_tracer_level(plan.tracers().device() > 0 ? 1 : 0);
  options.set_python_tracer_level(plan.tracers().python());
  options.set_enable_hlo_proto(true);
  options.set_include_dataset_ops(true);
  options.set_raise_error_on_start_failure(true);
  options.set_session_id(request.session_id());
  options.set_override_hostname(plan.worker());
  return request;
}

CallVerdict JudgeCallFailure(int code, std::string_view text, std::string_view address) {
  const auto verdict = [&](Outcome outcome, std::string_view what) {
    return CallVerdict{outcome, StrCat("profiler server at ", address, ": ", what,
                                       text.empty() ? "" : ": ", text)};
  };
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
      // gRPC's message contains "connect" only if nobody listened, not if a connection broke later.
      if (Contains(text, "connect") || Contains(text, "Connection refused")) {
        return verdict(Outcome::kNoSource, "nothing is listening");
      }
      return verdict(Outcome::kWorkerLost, "was lost while it recorded");
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return verdict(Outcome::kDeadlineExceeded, "did not answer in time");
    case grpc::StatusCode::CANCELLED:
      return verdict(Outcome::kCancelled, "the recording was cancelled");
    case grpc::StatusCode::UNIMPLEMENTED:
      return verdict(Outcome::kVersionMismatch, "is not a tensorflow.ProfilerService");
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return verdict(Outcome::kTruncated, "the trace is too large to send");
    default:
      break;
  }
  if (Contains(text, kNoRepository)) {
    return {Outcome::kVersionMismatch,
            StrCat("profiler server at ", address, " ", kCannotAnswerWithTrace)};
  }
  if (Contains(text, "Another profiling session active")) {
    return verdict(Outcome::kBusy, "another client is profiling this process");
  }
  if (ContainsIgnoreCase(text, "INSUFFICIENT_PRIVILEGES")) {
    return verdict(Outcome::kPermissionDenied, "the driver denied access");
  }
  return verdict(Outcome::kProfilerStartFailed, "the request was refused or failed");
}

}  // namespace strobe::source
