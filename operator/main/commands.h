// The subcommands of strobe-operator, for Helm's hooks and for administrators. Each does one thing
// and returns; what users should know is printed to standard output.
#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/kube/client.h"

namespace strobe {

// Brings the CRDs up to date: a server-side apply of every *.yaml in `dir`. Empty =
// <program>/../crds. NotFound when there is none.
absl::Status ApplyCrds(const std::string& kubeconfig, const std::string& dir);

// Removes our finalizer from every ProfileRequest of a namespace (empty = of all namespaces), for
// when no operator will be there to do it. Repeats that for up to a minute, until two looks in a
// row find none. Captures in progress continue at their workers; runs that were to be reclaimed
// stay.
//
// With `cancel` it removes no finalizer. It only cancels the captures in progress, through the
// operator that is still running, and waits up to 20 s until they have ended. Failures are then
// printed and are no error, because the removal of Strobe goes on without it.
absl::Status ReleaseRequests(const std::string& kubeconfig, const std::string& ns, bool cancel);
// Removes the finalizers once. Returns from how many requests.
absl::StatusOr<int> ReleaseRequests(kube::Client& client, const std::string& ns);

// Creates a ProfileRequest in the credentials' own namespace as a dry run, and prints what Strobe's
// webhook says to it. OK when the webhook answers, whether or not it admits the request.
absl::Status CheckInstallation(const std::string& kubeconfig);

}  // namespace strobe
