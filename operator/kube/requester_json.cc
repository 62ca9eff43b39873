#include "operator/kube/requester_json.h"

namespace strobe::kube {

using Json = nlohmann::json;

Requester ParseRequester(const Json& user_info) {
  Requester requester;
  requester.username = user_info.value("username", "");
  requester.uid = user_info.value("uid", "");
  requester.groups = user_info.value("groups", std::vector<std::string>());
  requester.extra = user_info.value("extra", std::map<std::string, std::vector<std::string>>());
  return requester;
}

Json RequesterToJson(const Requester& requester) {
  Json json = {{"username", requester.username}};
  if (!requester.uid.empty()) json["uid"] = requester.uid;
  if (!requester.groups.empty()) json["groups"] = requester.groups;
  if (!requester.extra.empty()) json["extra"] = requester.extra;
  return json;
}

std::optional<Requester> RequesterOf(const Json& object) {
  try {
    const Json annotations = object.at("metadata").value("annotations", Json::object());
    const auto found = annotations.find(kRequesterAnnotation);
    if (found == annotations.end()) return std::nullopt;
    return ParseRequester(Json::parse(found->get<std::string>()));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace strobe::kube
