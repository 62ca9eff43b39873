// What the commands for clusters share: objects that they read and create through kubectl.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "cli/kube/kube_flags.h"
#include "cli/kube/kubectl.h"

namespace strobe::cli {

// Creates the object and returns it as the API server stored it. Warnings of webhooks go to stderr.
// `flags` are more arguments for kubectl, such as --dry-run=server.
absl::StatusOr<std::string> CreateObject(cluster::Kubectl& kubectl,
                                         const nlohmann::ordered_json& object,
                                         const std::vector<std::string>& flags);

// The object in the file of --from as JSON; null without one.
absl::StatusOr<nlohmann::ordered_json> ReadFrom(cluster::Kubectl& kubectl, const std::string& file);

// The connection to the namespace of the object if that has one: what is created from a file
// must be found again where the file puts it.
ConnectionFlags InNamespaceOf(const nlohmann::ordered_json& object, ConnectionFlags connection);

// Letters that make a name unique, without vowels, so that they spell nothing.
std::string RandomLetters(int count);

}  // namespace strobe::cli
