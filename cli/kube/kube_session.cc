#include "cli/kube/kube_session.h"

#include <iostream>
#include <random>
#include <string_view>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::cli {

absl::StatusOr<std::string> CreateObject(cluster::Kubectl& kubectl,
                                         const nlohmann::ordered_json& object,
                                         const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"create", "--filename=-"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  // The object contains what the user typed, which may be no UTF-8.
  const std::string text = JsonText(object);
  ASSIGN_OR_RETURN(cluster::KubectlResult result, cluster::Complete(kubectl, arguments, text));
  std::cerr << result.err;
  return std::move(result.out);
}

std::string RandomLetters(int count) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::random_device random;
  std::string letters;
  for (int i = 0; i < count; ++i) letters += kLetters[random() % kLetters.size()];
  return letters;
}

absl::StatusOr<nlohmann::ordered_json> ReadFrom(cluster::Kubectl& kubectl,
                                                const std::string& file) {
  if (file.empty()) return nlohmann::ordered_json();
  // kubectl reads YAML too.
  ASSIGN_OR_RETURN(const std::string text,
                   cluster::Output(kubectl, {"create", StrCat("--filename=", file),
                                             "--dry-run=client", "--output=json"}));
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_discarded())
    return absl::InvalidArgumentError("--from must name a file with one ProfileRequest");
  return json;
}

ConnectionFlags InNamespaceOf(const nlohmann::ordered_json& object, ConnectionFlags connection) {
  const auto ns = nlohmann::ordered_json::json_pointer("/metadata/namespace");
  if (object.contains(ns) && object[ns].is_string()) connection.ns = object[ns];
  return connection;
}

}  // namespace strobe::cli
