#include "operator/enroll/enrollment_service.h"

#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/strings.h"

namespace strobe::enroll {
namespace {

constexpr std::size_t kMaxTokenBytes = 16384;

}  // namespace

std::string AddressOfPeer(const std::string& peer) {
  const std::size_t scheme = peer.find(':');
  const std::size_t port = peer.rfind(':');
  if (scheme == peer.npos || port <= scheme) return peer;
  std::string address = peer.substr(scheme + 1, port - scheme - 1);
  for (const std::string_view bracket : {"[", "%5B", "]", "%5D"}) {
    if (const std::size_t at = address.find(bracket); at != address.npos)
      address.erase(at, bracket.size());
  }
  return address;
}

grpc::Status EnrollmentService::Enroll(grpc::ServerContext* context,
                                       const v1::EnrollRequest* request,
                                       v1::EnrollResponse* response) {
  grpc::Status status(grpc::StatusCode::INTERNAL, "");
  (void)RunGuarded("enroll", [&] { status = EnrollFrom(context->peer(), *request, *response); });
  return status;
}

grpc::Status EnrollmentService::EnrollFrom(const std::string& peer,
                                           const v1::EnrollRequest& request,
                                           v1::EnrollResponse& response) {
  const std::shared_ptr<void> allowed = limiter_.Enter(AddressOfPeer(peer));
  if (allowed != nullptr) return Answer(request, response);
  enrolled_("limited");
  return {grpc::StatusCode::RESOURCE_EXHAUSTED,
          "too many sidecars enroll from this address at once; try again"};
}

grpc::Status EnrollmentService::Answer(const v1::EnrollRequest& request,
                                       v1::EnrollResponse& response) {
  // All refusals have one answer, so that strangers learn nothing about why a token is refused.
  const grpc::Status denied(grpc::StatusCode::UNAUTHENTICATED, "the token was not accepted");
  if (request.token().empty() || request.token().size() > kMaxTokenBytes) {
    enrolled_("denied");
    return denied;
  }
  const absl::StatusOr<PodIdentity> pod = reviewer_.Review(request.token());
  if (absl::IsUnauthenticated(pod.status())) {
    enrolled_("denied");
    return denied;
  }
  if (!pod.ok()) {
    enrolled_("failed");
    LogWarning("a token could not be reviewed", {{"error", MessageOf(pod.status())}});
    return {grpc::StatusCode::UNAVAILABLE, "the token could not be reviewed; try again"};
  }
  const absl::StatusOr<std::string> certificate =
      keeper_.CertifyPod(request.signing_request(), *pod);
  if (!certificate.ok()) {
    enrolled_("invalid");
    return {grpc::StatusCode::INVALID_ARGUMENT, MessageOf(certificate.status())};
  }
  response.set_certificate(*certificate);
  response.set_roots(keeper_.server().Get()->roots);
  response.set_namespace_(pod->ns);
  response.set_pod(pod->name);
  response.set_pod_uid(pod->uid);
  enrolled_("ok");
  LogInfo("enrolled", {{"pod", StrCat(pod->ns, "/", pod->name)}, {"uid", pod->uid}});
  return grpc::Status::OK;
}

}  // namespace strobe::enroll
