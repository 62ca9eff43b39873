// What can be told of a pod's token without asking the API server.
#pragma once
#include <string_view>

#include "common/base/clock.h"

namespace strobe::kube {

// Whether the API server may accept this token: it is a JSON Web Token for `audience` that has not
// expired. Its signature is not verified, so that a stranger can write one; the API server decides.
bool MayBeAccepted(std::string_view token, std::string_view audience, WallTime now);

}  // namespace strobe::kube
