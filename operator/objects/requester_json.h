// Who asked, between the API server's reviews, our annotation and core values.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "operator/core/admission_seal.h"
#include "operator/core/names.h"
#include "operator/core/requester.h"

namespace strobe::kube {

Requester ParseRequester(const nlohmann::json& user_info);  // authentication.k8s.io UserInfo.
nlohmann::json RequesterToJson(const Requester& requester);

// The text of kRequesterAnnotation for an object that is being created in `space`.
std::string SealRequester(const nlohmann::json& object, const std::string& space,
                          const Requester& requester, WallTime now, const std::string& key);

// As an object's annotation has it; nothing when there is none or it cannot be read. Whether the
// seal holds is another question.
struct StampedRequester {
  Requester requester{};
  SealedAdmission admission{};
  std::string seal{};
};
std::optional<StampedRequester> RequesterOf(const nlohmann::json& object, const std::string& space);

}  // namespace strobe::kube
