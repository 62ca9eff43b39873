#include "operator/base/requester_json.h"

#include <initializer_list>
#include <utility>
#include <vector>

#include "common/base/strings.h"
#include "common/text/json.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;

constexpr char kSealed[] = "sealed", kSeal[] = "seal", kSealedUid[] = "object",
               kSealedAdmitted[] = "admitted", kSealedCreator[] = "creator";

void CopyFields(const Json& from, Json& to, std::initializer_list<const char*> fields) {
  for (const char* field : fields)
    if (from.contains(field)) to[field] = from[field];
}

// What a seal covers beside the requester and the spec, as the annotation's fields.
Json MarksOf(const Json& annotation) {
  Json marks = Json::object();
  CopyFields(annotation, marks, {kSealedUid, kSealedAdmitted, kSealedCreator});
  return marks;
}

// The part of a request that the seal covers: what is captured, for how long, and where it goes. It
// contains only fields for which a later version of the schema adds no defaults, because new
// defaults would break the seals of waiting requests. The other fields do not turn the capture into
// a different one.
Json ContentOf(const Json& object) {
  const Json spec = object.value("spec", Json::object());
  Json content = Json::object();
  CopyFields(
      spec, content,
      {"logdir", "run", "duration", "reclaimPolicy", "maxBytesPerWorker", "steps", "lookBack"});
  const auto copy_target = [](const Json& from, Json& to) {
    CopyFields(from, to, {"selector", "jobRef", "pods", "container"});
  };
  Json target;
  copy_target(spec.value("target", Json::object()), target);
  if (!target.is_null()) content["target"] = std::move(target);
  for (const Json& each : spec.value("targets", Json::array()))
    copy_target(each, content["targets"].emplace_back());
  // Other requests have a default, which those from before this field were sealed without.
  if (const auto record = spec.find("record"); record != spec.end() && *record == "Evidence")
    content["record"] = *record;
  return content;
}

// The sealed content of a creator of runs: what they capture, and when.
Json CreatorContentOf(CreatorKind kind, const Json& object) {
  const Json spec = object.value("spec", Json::object());
  Json content = {{"run", ContentOf(spec.value("template", Json::object()))}};
  if (kind == CreatorKind::kTrigger) {
    content["alerts"] = content["budget"] = Json::object();
    CopyFields(spec.value("alerts", Json::object()), content["alerts"],
               {"matchLabels", "namespaceLabel", "podLabel", "jobLabel", "jobKind"});
    CopyFields(spec.value("budget", Json::object()), content["budget"],
               {"coolDown", "capturesPerDay", "dutyCycle", "bytesPerDay"});
    // Added only if there are signs, so that seals of triggers without signs stay valid.
    if (spec.contains("signs")) {
      content["signs"] = Json::object();
      CopyFields(spec["signs"], content["signs"],
                 {"stepsSlower", "noStepFor", "memoryNearLimit", "slowerThanOthers", "stalled",
                  "iterationSlower"});
    }
  } else {
    CopyFields(spec, content, {"schedule", "timeZone", "interval", "jitter"});
  }
  if (spec.contains("sample")) content["sample"] = spec["sample"].value("workers", 0);
  return content;
}

SealedAdmission AdmissionOf(const Json& object, const std::string& ns, const Requester& requester,
                            WallTime at, Json content, const Json& marks) {
  const Json metadata = object.value("metadata", Json::object());
  const std::string generated = metadata.value("generateName", "");
  SealedAdmission admission;
  admission.ns = ns;
  admission.name = generated.empty() ? metadata.value("name", "") : generated + "*";
  admission.requester = JsonText(RequesterToJson(requester));
  content.update(marks);
  admission.content = JsonText(content);
  admission.at = std::chrono::floor<std::chrono::seconds>(at);
  return admission;
}

std::string Annotation(const SealedAdmission& admission, const Requester& requester,
                       const Json& marks, const std::string& key) {
  Json json = RequesterToJson(requester);
  json[kSealed] = FormatRfc3339(admission.at);
  json[kSeal] = MakeSeal(key, admission);
  json.update(marks);
  return JsonText(json);
}

std::string SealCreatorWith(CreatorKind kind, const Json& object, const std::string& ns,
                            const Requester& requester, WallTime at, const Json& marks,
                            const std::string& key) {
  const Json content = CreatorContentOf(kind, object);
  return Annotation(AdmissionOf(object, ns, requester, at, content, marks), requester, marks, key);
}

// `content` returns what the seal covers of the object.
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
    stamped.admitted = json.value(kSealedAdmitted, false);
    stamped.creator = json.value(kSealedCreator, "");
    stamped.admission =
        AdmissionOf(object, ns, stamped.requester, ReadTime(json, kSealed).value_or(WallTime{}),
                    content(object), MarksOf(json));
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
                          WallTime now, const std::string& key, const std::string& creator) {
  Json marks = Json::object();
  if (!creator.empty()) marks[kSealedCreator] = creator;
  return Annotation(AdmissionOf(object, ns, requester, now, ContentOf(object), marks), requester,
                    marks, key);
}

std::string SealCreator(CreatorKind kind, const Json& object, const std::string& ns,
                        const Requester& requester, WallTime now, const std::string& key,
                        const std::string& uid) {
  Json marks = Json::object();
  if (!uid.empty()) marks[kSealedUid] = uid;
  return SealCreatorWith(kind, object, ns, requester, now, marks, key);
}

std::string SealAdmitted(const RunCreator& creator, const Json& object, const std::string& key) {
  return SealCreatorWith(creator.kind, object, creator.ns, creator.requester.value_or(Requester{}),
                         creator.admission.at, {{kSealedUid, creator.uid}, {kSealedAdmitted, true}},
                         key);
}

std::optional<StampedRequester> RequesterOf(const Json& object, const std::string& ns) {
  return ReadStamp(object, ns, ContentOf);
}

std::optional<StampedRequester> CreatorRequesterOf(CreatorKind kind, const Json& object,
                                                   const std::string& ns) {
  return ReadStamp(object, ns,
                   [kind](const Json& creator) { return CreatorContentOf(kind, creator); });
}

std::string SealedCreatorOf(const Json& request, std::span<const std::string> keys) {
  const Json& metadata = Member(request, "metadata");
  // Most requests are nobody's runs, and this is cheap.
  if (TextOf(Member(metadata, "annotations"), kRequesterAnnotation).find(kSealedCreator) ==
      std::string::npos)
    return "";
  const std::optional<StampedRequester> stamped =
      RequesterOf(request, TextOf(metadata, "namespace"));
  if (!stamped || !SealHolds(keys, stamped->admission, stamped->seal)) return "";
  // A copy of a run that was deleted has the same seal.
  const std::optional<WallTime> created = ReadTime(metadata, "creationTimestamp");
  const bool copied =
      !created || std::chrono::abs(*created - stamped->admission.at) > kSealToCreation;
  return copied ? "" : stamped->creator;
}

bool NamesCreator(const std::string& annotation) {
  return !TextOf(Json::parse(annotation, nullptr, false), kSealedCreator).empty();
}

std::string Resealed(const std::string& annotation, const SealedAdmission& admission,
                     const std::string& key) {
  Json json = Json::parse(annotation, nullptr, false);
  if (!json.is_object()) return annotation;
  json[kSeal] = MakeSeal(key, admission);
  return JsonText(json);
}

}  // namespace strobe::kube
