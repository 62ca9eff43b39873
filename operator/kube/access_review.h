// Asks the API server what a user may do.
#pragma once
#include "absl/status/statusor.h"
#include "operator/base/requester.h"
#include "operator/kube/client.h"

namespace strobe::kube {

// `attributes` are a SubjectAccessReview's resourceAttributes. An error means that the answer is
// not known.
absl::StatusOr<bool> IsAllowed(Client& client, const Requester& user, Json attributes,
                               Nanos within);

}  // namespace strobe::kube
