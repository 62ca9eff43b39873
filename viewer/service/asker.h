// Who asks: the user and groups that an authenticating proxy passes in headers. Pure.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/http/server.h"

namespace strobe::viewer {

struct Asker {
  std::string user{};
  std::vector<std::string> groups{};  // Sorted; each once.
};

struct IdentityHeaders {
  std::string user = "X-Forwarded-User", groups = "X-Forwarded-Groups";
  // Put before each name, as the API server's own authenticator does (--oidc-username-prefix).
  std::string user_prefix{}, groups_prefix{};
};

inline constexpr std::size_t kMaxUserBytes = 512, kMaxGroupBytes = 512, kMaxGroups = 1000,
                             kMaxGroupsHeaderBytes = std::size_t{32} << 10;

// Reads one user header and at most one header of groups, separated by commas. Unauthenticated if
// there is no user. InvalidArgument if the headers can be read in more than one way: a repeated
// header, or a comma in a user's name, is left when a proxy adds its header to one that the client
// has sent. OutOfRange if they are too long. Kubernetes keeps names that begin with "system:" for
// itself and gives them rights. People who choose their own names at an identity provider must not
// get those, so such groups are left out, and such users are refused (PermissionDenied).
absl::StatusOr<Asker> ReadAsker(const http::Request& request, const IdentityHeaders& names);

}  // namespace strobe::viewer
