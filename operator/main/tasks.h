// What the operator's program does once and ends: for Helm's hooks and for administrators.
#pragma once
#include <string>

#include "absl/status/status.h"

namespace strobe {

// Server-side apply of every *.yaml in `dir`; empty = <program>/../crds.
absl::Status ApplyCrds(const std::string& kubeconfig, const std::string& dir);

// Asks for a capture in the credentials' own namespace as a dry run. Fine when Strobe's webhook
// answers, whatever it says; prints what.
absl::Status CheckInstallation(const std::string& kubeconfig);

}  // namespace strobe
