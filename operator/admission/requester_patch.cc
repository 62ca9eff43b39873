#include "operator/admission/requester_patch.h"

#include "operator/base/json_members.h"
#include "operator/base/names.h"

namespace strobe {
namespace {

constexpr char kAnnotationsPath[] = "/metadata/annotations";

}  // namespace

nlohmann::json RequesterAnnotation(const nlohmann::json& object) {
  return kube::Member(kube::Member(kube::Member(object, "metadata"), "annotations"),
                      kRequesterAnnotation);
}

AdmissionAnswer SetRequesterAnnotation(const nlohmann::json& object, const nlohmann::json& value) {
  AdmissionAnswer answer;
  if (RequesterAnnotation(object) == value) return answer;
  const std::string path =
      (nlohmann::json::json_pointer(kAnnotationsPath) / kRequesterAnnotation).to_string();
  if (value.is_null()) {
    answer.patch.push_back({{"op", "remove"}, {"path", path}});
    return answer;
  }
  if (kube::Member(kube::Member(object, "metadata"), "annotations").is_null()) {
    answer.patch.push_back(
        {{"op", "add"}, {"path", kAnnotationsPath}, {"value", nlohmann::json::object()}});
  }
  answer.patch.push_back({{"op", "add"}, {"path", path}, {"value", value}});
  return answer;
}

}  // namespace strobe
