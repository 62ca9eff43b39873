// strobe.v1.Enrollment: issues certificates to sidecars that show their pod's token. Anybody can
// reach the port and make the API server review tokens, so one address may do so 200 times at once
// and 20 times a second from then on. Sidecars try again after half a second, and then less and
// less often, up to a minute: 500 pods behind one address that begin together have their
// certificates within a minute. At most half of the server's threads review tokens, and one address
// has at most half of those.
#pragma once
#include <functional>
#include <string>

#include "common/base/clock.h"
#include "common/http/source_limiter.h"
#include "operator/enroll/authority_keeper.h"
#include "operator/enroll/ports.h"
#include "strobe/v1/enrollment.grpc.pb.h"

namespace strobe::enroll {

class EnrollmentService final : public v1::Enrollment::Service {
 public:
  // `enrolled` is called for each answer, for metrics, with ok, denied, invalid, failed or limited.
  // All outlive the service.
  EnrollmentService(const Clock& clock, const AuthorityKeeper& keeper, TokenReviewer& reviewer,
                    std::function<void(const std::string& result)> enrolled)
      : keeper_(keeper),
        reviewer_(reviewer),
        enrolled_(std::move(enrolled)),
        limiter_(clock, kLimits) {}

  grpc::Status Enroll(grpc::ServerContext* context, const v1::EnrollRequest* request,
                      v1::EnrollResponse* response) override;
  // Like Enroll, for the peer of a connection, as gRPC writes it.
  grpc::Status EnrollFrom(const std::string& peer, const v1::EnrollRequest& request,
                          v1::EnrollResponse& response);

 private:
  static constexpr http::SourceLimiter::Limits kLimits = {
      .per_second = 20, .burst = 200, .at_once = 8, .all_at_once = 8};
  grpc::Status Answer(const v1::EnrollRequest& request, v1::EnrollResponse& response);

  const AuthorityKeeper& keeper_;
  TokenReviewer& reviewer_;
  const std::function<void(const std::string&)> enrolled_;
  http::SourceLimiter limiter_;
};

// The address of a peer as gRPC writes it: "fd00::1" for "ipv6:%5Bfd00::1%5D:9444".
std::string AddressOfPeer(const std::string& peer);

}  // namespace strobe::enroll
