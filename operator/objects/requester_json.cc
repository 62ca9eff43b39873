#include "operator/objects/requester_json.h"

#include <vector>

#include "common/base/json_text.h"
#include "common/base/strings.h"
#include "operator/core/names.h"
#include "operator/objects/json_fields.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;

constexpr char kSealed[] = "sealed", kSeal[] = "seal", kSealedUid[] = "object";

// The part of a request that the seal covers: what is captured, for how long, and where it goes. It
// contains only fields for which a later version of the schema adds no defaults, because new
// defaults would break the seals of waiting requests. The other fields do not turn the capture into
// a different one.
Json ContentOf(const Json& object) {
  const Json spec = object.value("spec", Json::object());
  const Json target = spec.value("target", Json::object());
  Json content = Json::object();
  for (const char* field :
       {"logdir", "run", "duration", "reclaimPolicy", "maxBytesPerWorker", "steps", "lookBack"})
    if (spec.contains(field)) content[field] = spec[field];
  for (const char* field : {"selector", "jobRef", "pods", "container"})
    if (target.contains(field)) content["target"][field] = target[field];
  return content;
}

// The same for a creator of runs: what they capture, and when. `uid` as in StampedRequester.
Json CreatorContentOf(CreatorKind kind, const Json& object, const std::string& uid) {
  const Json spec = object.value("spec", Json::object());
  Json content = {{"run", ContentOf(spec.value("template", Json::object()))}};
  const auto copy = [](const Json& from, Json& to, const std::vector<const char*>& fields) {
    for (const char* field : fields)
      if (from.contains(field)) to[field] = from[field];
  };
  if (kind == CreatorKind::kTrigger) {
    content["alerts"] = content["budget"] = Json::object();
    copy(spec.value("alerts", Json::object()), content["alerts"],
         {"matchLabels", "namespaceLabel", "podLabel", "jobLabel", "jobKind"});
    copy(spec.value("budget", Json::object()), content["budget"],
         {"coolDown", "capturesPerDay", "dutyCycle", "bytesPerDay"});
    // Added only if there are signs, so that seals of triggers without signs stay valid.
    if (spec.contains("signs")) {
      content["signs"] = Json::object();
      copy(spec["signs"], content["signs"],
           {"stepsSlower", "noStepFor", "memoryNearLimit", "slowerThanOthers"});
    }
  } else {
    copy(spec, content, {"schedule", "timeZone", "interval", "jitter"});
  }
  if (spec.contains("sample")) content["sample"] = spec["sample"].value("workers", 0);
  if (!uid.empty()) content["object"] = uid;
  return content;
}

SealedAdmission AdmissionOf(const Json& object, const std::string& ns, const Requester& requester,
                            WallTime at, const Json& content) {
  const Json metadata = object.value("metadata", Json::object());
  const std::string generated = metadata.value("generateName", "");
  SealedAdmission admission;
  admission.ns = ns;
  admission.name = generated.empty() ? metadata.value("name", "") : generated + "*";
  admission.requester = JsonText(RequesterToJson(requester));
  admission.content = JsonText(content);
  admission.at = std::chrono::floor<std::chrono::seconds>(at);
  return admission;
}

std::string Annotation(const SealedAdmission& admission, const Requester& requester,
                       const std::string& uid, const std::string& key) {
  Json json = RequesterToJson(requester);
  json[kSealed] = FormatRfc3339(admission.at);
  json[kSeal] = MakeSeal(key, admission);
  if (!uid.empty()) json[kSealedUid] = uid;
  return JsonText(json);
}

// `content` returns what the seal covers of the object; it is given the UID in the annotation.
template <typename Content>
std::optional<StampedRequester> ReadStamp(const Json& object, const std::string& ns,
                                          const Content& content) {
  try {
    const Json annotations = object.at("metadata").value("annotations", Json::object());
    const auto found = annotations.find(kRequesterAnnotation);
    if (found == annotations.end()) return std::nullopt;
    const Json json = Json::parse(found->get<std::string>());
    StampedRequester stamped;
    stamped.requester = ParseRequester(json);
    stamped.uid = json.value(kSealedUid, "");
    stamped.admission =
        AdmissionOf(object, ns, stamped.requester, ReadTime(json, kSealed).value_or(WallTime{}),
                    content(stamped.uid));
    stamped.seal = json.value(kSeal, "");
    return stamped;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

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

std::string SealRequester(const Json& object, const std::string& ns, const Requester& requester,
                          WallTime now, const std::string& key) {
  return Annotation(AdmissionOf(object, ns, requester, now, ContentOf(object)), requester, "", key);
}

std::string SealCreator(CreatorKind kind, const Json& object, const std::string& ns,
                        const Requester& requester, WallTime now, const std::string& key,
                        const std::string& uid) {
  return Annotation(AdmissionOf(object, ns, requester, now, CreatorContentOf(kind, object, uid)),
                    requester, uid, key);
}

std::optional<StampedRequester> RequesterOf(const Json& object, const std::string& ns) {
  return ReadStamp(object, ns, [&](const std::string&) { return ContentOf(object); });
}

std::optional<StampedRequester> CreatorRequesterOf(CreatorKind kind, const Json& object,
                                                   const std::string& ns) {
  return ReadStamp(object, ns,
                   [&](const std::string& uid) { return CreatorContentOf(kind, object, uid); });
}

std::string Resealed(const std::string& annotation, const SealedAdmission& admission,
                     const std::string& key) {
  Json json = Json::parse(annotation, nullptr, false);
  if (!json.is_object()) return annotation;
  json[kSeal] = MakeSeal(key, admission);
  return JsonText(json);
}

}  // namespace strobe::kube
