#include "operator/kube/access_review.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/requester_json.h"

namespace strobe::kube {

absl::StatusOr<bool> IsAllowed(Client& client, const Requester& user, Json attributes,
                               Nanos within) {
  // A SubjectAccessReview has the fields of a UserInfo, except for the user's name.
  Json spec = RequesterToJson(user);
  spec["user"] = user.username;
  spec.erase("username");
  spec["resourceAttributes"] = std::move(attributes);
  ASSIGN_OR_RETURN(const Json review,
                   client.Create("/apis/authorization.k8s.io/v1/subjectaccessreviews",
                                 {{"apiVersion", "authorization.k8s.io/v1"},
                                  {"kind", "SubjectAccessReview"},
                                  {"spec", std::move(spec)}},
                                 within));
  try {
    return review.value("status", Json::object()).value("allowed", false);
  } catch (const Json::exception& error) {
    return absl::DataLossError(StrCat("SubjectAccessReview: ", error.what()));
  }
}

}  // namespace strobe::kube
