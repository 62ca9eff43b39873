// Converts the requester's identity between the API server's reviews, Strobe's annotation and core
// values.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "operator/core/admission_seal.h"
#include "operator/core/names.h"
#include "operator/core/requester.h"

namespace strobe::kube {

// `user_info` is a UserInfo of authentication.k8s.io.
Requester ParseRequester(const nlohmann::json& user_info);
nlohmann::json RequesterToJson(const Requester& requester);

// Returns the value of kRequesterAnnotation for an object that is being created in `ns`.
std::string SealRequester(const nlohmann::json& object, const std::string& ns,
                          const Requester& requester, WallTime now, const std::string& key);

// The content of an object's annotation.
struct StampedRequester {
  Requester requester{};
  SealedAdmission admission{};
  std::string seal{};
};
// Nothing if there is no annotation or it cannot be parsed. Does not check the seal.
std::optional<StampedRequester> RequesterOf(const nlohmann::json& object, const std::string& ns);

}  // namespace strobe::kube
