// Who asked, between the API server's reviews, our annotation and core values.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "operator/core/admission_seal.h"
#include "operator/core/requester.h"

namespace strobe::kube {

// JSON: who asked, when that was sealed, and the seal. Our webhook writes it over what anybody else
// wrote there.
inline constexpr char kRequesterAnnotation[] = "strobe.dev/requester";

Requester ParseRequester(const nlohmann::json& user_info);  // authentication.k8s.io UserInfo.
nlohmann::json RequesterToJson(const Requester& requester);

// The annotation's text for an object that is being created in `space`.
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
