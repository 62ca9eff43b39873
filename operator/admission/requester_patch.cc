#include "operator/admission/requester_patch.h"

#include "operator/core/names.h"
#include "operator/objects/json_members.h"

namespace strobe {
namespace {

constexpr char kRequesterPath[] = "/metadata/annotations/strobe.dev~1requester";

}  // namespace

nlohmann::json RequesterAnnotation(const nlohmann::json& object) {
  return kube::Member(kube::Member(kube::Member(object, "metadata"), "annotations"),
                      kRequesterAnnotation);
}

AdmissionAnswer SetRequesterAnnotation(const nlohmann::json& object, const nlohmann::json& value) {
  AdmissionAnswer answer;
  if (RequesterAnnotation(object) == value) return answer;
  if (value.is_null()) {
    answer.patch.push_back({{"op", "remove"}, {"path", kRequesterPath}});
    return answer;
  }
  if (kube::Member(kube::Member(object, "metadata"), "annotations").is_null()) {
    answer.patch.push_back(
        {{"op", "add"}, {"path", "/metadata/annotations"}, {"value", nlohmann::json::object()}});
  }
  answer.patch.push_back({{"op", "add"}, {"path", kRequesterPath}, {"value", value}});
  return answer;
}

}  // namespace strobe
