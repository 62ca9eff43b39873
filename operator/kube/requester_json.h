// Who asked, between the API server's reviews, our annotation and core values.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "operator/core/requester.h"

namespace strobe::kube {

// Only our webhook sets it: it replaces what anybody else wrote there.
inline constexpr char kRequesterAnnotation[] = "strobe.dev/requester";

Requester ParseRequester(const nlohmann::json& user_info);  // authentication.k8s.io UserInfo.
nlohmann::json RequesterToJson(const Requester& requester);
// From an object's annotation; nothing when there is none or it cannot be read.
std::optional<Requester> RequesterOf(const nlohmann::json& object);

}  // namespace strobe::kube
