#include "operator/trigger/sign_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "common/base/guard.h"
#include "common/grpc_tls/credentials.h"
#include "common/text/safe_text.h"
#include "common/tls/peer.h"

namespace strobe::trigger {
namespace {

// No name of a namespace or pod, and no UID, is longer.
constexpr std::size_t kMaxPodText = 253;
// Less than the five seconds for which a sidecar waits.
constexpr Nanos kDecideSigns = std::chrono::seconds(4);
// Further callers are told to come back, so that calls that wait for the API server leave threads
// to sidecars that enroll.
constexpr int kMaxDeciding = 8;

v1::SignKind KindOf(SignKind kind) {
  switch (kind) {
    case SignKind::kStepsSlower:
      return v1::SIGN_STEPS_SLOWER;
    case SignKind::kNoStep:
      return v1::SIGN_NO_STEP;
    case SignKind::kMemoryNearLimit:
      return v1::SIGN_MEMORY_NEAR_LIMIT;
    case SignKind::kSlowerThanOthers:
      return v1::SIGN_SLOWER_THAN_OTHERS;
    case SignKind::kStalled:
      return v1::SIGN_STALLED;
    case SignKind::kIterationSlower:
      return v1::SIGN_ITERATION_SLOWER;
  }
  return v1::SIGN_UNKNOWN;
}

std::string CertificateOf(const grpc::ServerContext& context) {
  for (const grpc::string_ref& value :
       context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME))
    return {value.data(), value.size()};
  return "";
}

Nanos Bounded(std::int64_t ns) { return std::clamp<Nanos>(Nanos{ns}, Nanos{0}, kMaxSignAge); }

// Bounds a text that becomes part of statuses and events.
std::string BoundedText(const std::string& text) {
  return WithoutControls(CutUtf8(text, kMaxSignText));
}

}  // namespace

grpc::Status SignService::Tell(grpc::ServerContext* context, const v1::TellSignsRequest* request,
                               v1::TellSignsResponse* response) {
  grpc::Status status(grpc::StatusCode::INTERNAL, "");
  (void)RunGuarded("signs", [&] { status = Answer(CertificateOf(*context), *request, *response); });
  return status;
}

grpc::Status SignService::Answer(const std::string& certificate,
                                 const v1::TellSignsRequest& request,
                                 v1::TellSignsResponse& response) {
  // A sidecar's certificate is made for serving, and it shows the same one here.
  const PeerRule rule{own_.Get()->roots, PodName(request.pod_uid()), Usage::kServer};
  if (request.pod_uid().empty() || request.pod_uid().size() > kMaxPodText ||
      JudgePeer(certificate, rule, clock_.WallNow()) != PeerVerdict::kOk) {
    refused_("unauthenticated");
    return {grpc::StatusCode::UNAUTHENTICATED, "the certificate does not belong to the pod"};
  }
  const auto is_name = [](const std::string& text) {
    return !text.empty() && text.size() <= kMaxPodText;
  };
  if (!is_name(request.namespace_()) || !is_name(request.pod())) {
    refused_("invalid");
    return {grpc::StatusCode::INVALID_ARGUMENT, "namespace and pod must be names"};
  }
  if (deciding_.fetch_add(1) >= kMaxDeciding) {
    --deciding_;
    refused_("busy");
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many workers at once"};
  }
  const grpc::Status status = Decide(request, response);
  --deciding_;
  return status;
}

grpc::Status SignService::Decide(const v1::TellSignsRequest& request,
                                 v1::TellSignsResponse& response) {
  const absl::StatusOr<SignOrders> orders =
      sink_.Take(ReadWorkerSigns(request), clock_.MonoNow() + kDecideSigns);
  if (absl::IsPermissionDenied(orders.status()))
    return {grpc::StatusCode::PERMISSION_DENIED, MessageOf(orders.status())};
  // The sidecar is not told why, because that concerns only the operator.
  if (!orders.ok()) return {grpc::StatusCode::UNAVAILABLE, "try again later"};
  for (const SignRule& rule : orders->rules) {
    v1::SignRule& told = *response.add_rules();
    told.set_id(rule.id);
    told.set_kind(KindOf(rule.kind));
    told.set_percent(rule.percent);
    told.set_steps(rule.steps);
    told.set_duration_ns(rule.duration.count());
  }
  response.set_again_ns(orders->again.count());
  return grpc::Status::OK;
}

WorkerSigns ReadWorkerSigns(const v1::TellSignsRequest& request) {
  WorkerSigns told{.ns = request.namespace_(), .pod = request.pod(), .uid = request.pod_uid()};
  for (const v1::Sign& sign : request.signs()) {
    if (told.signs.size() == kMaxReportedSigns) break;
    told.signs.push_back({.rule = sign.rule(),
                          .began_ago = Bounded(sign.began_ago_ns()),
                          .loop = BoundedText(sign.loop()),
                          .process = BoundedText(sign.process()),
                          .step = Bounded(sign.step_ns()),
                          .usual_step = Bounded(sign.usual_step_ns()),
                          .memory_used = sign.memory_used(),
                          .memory_limit = sign.memory_limit(),
                          .running = sign.running(),
                          .waiting = sign.waiting(),
                          .batch_requests = sign.batch_requests(),
                          .batch_tokens = sign.batch_tokens()});
  }
  for (const v1::StepTime& time : request.step_times()) {
    if (told.step_times.size() == kMaxReportedStepTimes) break;
    if (time.step_ns() <= 0 || time.steps() == 0) continue;
    told.step_times.push_back({.loop = BoundedText(time.loop()),
                               .process = BoundedText(time.process()),
                               .step = Bounded(time.step_ns()),
                               .steps = time.steps()});
  }
  return told;
}

}  // namespace strobe::trigger
