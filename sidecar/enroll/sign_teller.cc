#include "sidecar/enroll/sign_teller.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "common/grpc_tls/credentials.h"
#include "strobe/v1/signs.grpc.pb.h"

namespace strobe::enroll {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kMaxUntold = 8;
constexpr Nanos kSignLife = minutes(5);
constexpr Nanos kFirstTellRetry = seconds(1), kMaxTellRetry = seconds(60);
// The bounds of the interval that an operator may ask for. The longest one is used with an older
// operator, which does not know the call.
constexpr Nanos kSoonest = seconds(1), kLatest = minutes(10);

}  // namespace

SignTeller::SignTeller(const Clock& clock, OperatorAddress address, const LiveIdentity& identity,
                       OwnPod pod)
    : clock_(clock),
      address_(std::move(address)),
      identity_(identity),
      pod_(std::move(pod)),
      by_name_(address_.connect_to.empty()),
      next_(clock.MonoNow()),
      retry_(kFirstTellRetry) {}

void SignTeller::Add(v1::Sign sign, MonoTime began) {
  if (untold_.size() >= kMaxUntold) untold_.pop_front();
  untold_.push_back({std::move(sign), began, clock_.MonoNow()});
  // Tells it at once, except after a failed call, whose retry is awaited.
  if (retry_ == kFirstTellRetry) next_ = clock_.MonoNow();
}

absl::StatusOr<v1::TellSignsResponse> SignTeller::Tell(std::span<const v1::StepTime> step_times) {
  std::erase_if(untold_,
                [&](const Untold& untold) { return untold.found + kSignLife < clock_.MonoNow(); });
  const std::size_t telling = untold_.size();
  absl::StatusOr<v1::TellSignsResponse> answer = Call(step_times);
  const MonoTime now = clock_.MonoNow();
  if (answer.ok()) {
    untold_.erase(untold_.begin(), untold_.begin() + static_cast<std::ptrdiff_t>(telling));
    retry_ = kFirstTellRetry;
    next_ = now + Spread(std::clamp<Nanos>(Nanos{answer->again_ns()}, kSoonest, kLatest));
  } else if (absl::IsUnimplemented(answer.status())) {
    untold_.clear();
    next_ = now + Spread(kLatest);
  } else {
    // A Service that was created anew has another address, so its name is tried as well.
    by_name_ = address_.connect_to.empty() || !by_name_;
    next_ = now + Spread(retry_);
    retry_ = std::min(retry_ * 2, kMaxTellRetry);
  }
  return answer;
}

absl::StatusOr<v1::TellSignsResponse> SignTeller::Call(std::span<const v1::StepTime> step_times) {
  v1::TellSignsRequest request;
  request.set_namespace_(pod_.ns);
  request.set_pod(pod_.name);
  request.set_pod_uid(pod_.uid);
  const MonoTime now = clock_.MonoNow();
  for (const Untold& untold : untold_) {
    v1::Sign& sign = *request.add_signs() = untold.sign;
    sign.set_began_ago_ns((now - untold.began).count());
  }
  request.mutable_step_times()->Assign(step_times.begin(), step_times.end());
  const auto stub =
      v1::Signs::NewStub(OpenOperatorChannel(clock_, address_, by_name_, *identity_.Get()));
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(kTellTimeout));
  v1::TellSignsResponse response;
  const grpc::Status status = stub->Tell(&context, request, &response);
  if (!status.ok())
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  return response;
}

}  // namespace strobe::enroll
