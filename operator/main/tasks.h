// What the operator's program does once and ends: for Helm's hooks and for administrators.
#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/kube/client.h"

namespace strobe {

// Server-side apply of every *.yaml in `dir`; empty = <program>/../crds.
absl::Status ApplyCrds(const std::string& kubeconfig, const std::string& dir);

// Takes our finalizer off every ProfileRequest of a namespace, or of all when it is empty, and
// again until there is none any more: for when no operator will be there to do it. Captures that
// are under way go on to their end at the workers; runs that were to be reclaimed stay. With
// `cancel` those are cancelled first, by the operator that is still there, and it is waited a while
// for that; whatever fails then is told and is no error.
absl::Status ReleaseRequests(const std::string& kubeconfig, const std::string& space, bool cancel);
absl::StatusOr<int> ReleaseRequests(kube::Client& client, const std::string& space);

// Asks for a capture in the credentials' own namespace as a dry run. Fine when Strobe's webhook
// answers, whatever it says; prints what.
absl::Status CheckInstallation(const std::string& kubeconfig);

}  // namespace strobe
