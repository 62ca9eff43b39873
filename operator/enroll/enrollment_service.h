// strobe.v1.Enrollment: issues certificates to sidecars that show their pod's token.
#pragma once
#include <functional>
#include <string>

#include "operator/enroll/authority_keeper.h"
#include "operator/enroll/ports.h"
#include "strobe/v1/enrollment.grpc.pb.h"

namespace strobe {

class EnrollmentService final : public v1::Enrollment::Service {
 public:
  // `enrolled` is called for each answer, for metrics, with ok, denied, invalid or failed. All
  // outlive the service.
  EnrollmentService(const AuthorityKeeper& keeper, TokenReviewer& reviewer,
                    std::function<void(const std::string& result)> enrolled)
      : keeper_(keeper), reviewer_(reviewer), enrolled_(std::move(enrolled)) {}

  grpc::Status Enroll(grpc::ServerContext* context, const v1::EnrollRequest* request,
                      v1::EnrollResponse* response) override;

 private:
  grpc::Status Answer(const v1::EnrollRequest& request, v1::EnrollResponse& response);

  const AuthorityKeeper& keeper_;
  TokenReviewer& reviewer_;
  const std::function<void(const std::string&)> enrolled_;
};

}  // namespace strobe
