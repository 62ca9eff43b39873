#include "operator/admission/creator_review.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/base/namespace_bounds.h"
#include "operator/base/requester_json.h"
#include "operator/objects/request.h"
#include "operator/schedule/schedule.h"
#include "operator/trigger/trigger.h"

namespace strobe::admission {
namespace {

constexpr char kAnnotationsPath[] = "/metadata/annotations";

using Json = nlohmann::json;

// The spec without the fields that do not change what runs do: a user who only changes those, for
// example to suspend a schedule, does not become its requester.
Json RunSpecOf(const Json& object) {
  Json spec = kube::Member(object, "spec");
  if (!spec.is_object()) return spec;
  for (const char* field :
       {"suspend", "successfulRunsHistoryLimit", "failedRunsHistoryLimit", "keepFor"})
    spec.erase(field);
  return spec;
}

bool AsksForOtherRuns(const AdmissionRequest& request) {
  return request.operation == "CREATE" ||
         RunSpecOf(request.object) != RunSpecOf(request.old_object);
}

// An example of the runs that the creator would start, with what is known before one is due.
// InvalidArgument tells why the creator's spec cannot work.
absl::StatusOr<Json> ExampleOf(kube::CreatorKind kind, const Json& object) {
  const auto made = [](const auto& creator) -> absl::StatusOr<Json> {
    RETURN_IF_ERROR(creator.status());
    if (!creator->invalid.empty()) return absl::InvalidArgumentError(ToAbsl(creator->invalid));
    return ExampleRun(*creator);
  };
  return kind == kube::CreatorKind::kSchedule ? made(schedule::ParseSchedule(object))
                                              : made(trigger::ParseTrigger(object));
}

}  // namespace

nlohmann::json RequesterAnnotation(const nlohmann::json& object) {
  return kube::Member(kube::Member(kube::Member(object, "metadata"), "annotations"),
                      kube::kRequesterAnnotation);
}

Answer SetRequesterAnnotation(const nlohmann::json& object, const nlohmann::json& value) {
  Answer answer;
  if (RequesterAnnotation(object) == value) return answer;
  const std::string path =
      (nlohmann::json::json_pointer(kAnnotationsPath) / kube::kRequesterAnnotation).to_string();
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

Answer StampCreator(kube::CreatorKind kind, const AdmissionRequest& request,
                    const std::vector<std::string>& seal_keys, WallTime now) {
  if (!AsksForOtherRuns(request))
    return SetRequesterAnnotation(request.object, RequesterAnnotation(request.old_object));
  if (seal_keys.empty()) return Refusal(500, "the requester cannot be sealed yet; try again");
  const std::string uid = request.operation == "CREATE"
                              ? ""
                              : kube::TextOf(kube::Member(request.object, "metadata"), "uid");
  return SetRequesterAnnotation(
      request.object,
      kube::SealCreator(kind, request.object, request.ns, kube::ParseRequester(request.user), now,
                        seal_keys.front(), uid));
}

Answer CheckCreator(kube::CreatorKind kind, const AdmissionRequest& request,
                    access::Gatekeeper& gatekeeper, Nanos within) {
  if (!AsksForOtherRuns(request)) return {};
  const auto bytes_of = [](const Json& from) {
    return JsonText(kube::Member(from, "spec")).size();
  };
  const std::size_t bytes = bytes_of(request.object);
  // One of before may be changed as long as it does not grow.
  if (bytes > kube::kMaxCreatorBytes && bytes > bytes_of(request.old_object)) {
    return Refusal(422, StrCat("spec has ", bytes, " bytes, and may have ", kube::kMaxCreatorBytes,
                               "; choose pods by a selector"));
  }
  Json object = request.object;
  object["metadata"]["namespace"] = request.ns;
  absl::StatusOr<Json> example = ExampleOf(kind, object);
  if (!example.ok()) return Refusal(422, MessageOf(example.status()));
  Json& run = *example;
  if (kube::Member(run["spec"], "logdir").is_null()) {
    const absl::StatusOr<std::string> logdir = gatekeeper.LogdirFor(request.ns, within / 2);
    if (absl::IsNotFound(logdir.status()) || absl::IsFailedPrecondition(logdir.status()))
      return Refusal(422, StrCat("spec.template.spec.logdir: ", MessageOf(logdir.status())));
    if (!logdir.ok()) {
      return Refusal(500,
                     "the default of spec.template.spec.logdir could not be read; give it, or "
                     "try again");
    }
    run["spec"]["logdir"] = *logdir;
  }
  const absl::StatusOr<objects::ProfileRequest> asked = objects::ParseRequest(run);
  if (!asked.ok()) return Refusal(422, MessageOf(asked.status()));
  if (request.operation == "CREATE") {
    const absl::StatusOr<std::string> full = gatekeeper.WhyNoMore(kind, request.ns, within / 4);
    if (!full.ok()) return Refusal(500, "the number of its kind is not known now; try again");
    if (!full->empty()) return Refusal(403, *full);
  }
  const absl::StatusOr<policy::Verdict> verdict =
      gatekeeper.Judge(*asked, kube::ParseRequester(request.user), {}, within / 2);
  if (!verdict.ok()) {
    LogWarning(StrCat("a ", kube::NounOf(kind), " could not be checked"),
               {{"error", MessageOf(verdict.status())}});
    return Refusal(500, "the permission to create its runs could not be checked; try again");
  }
  // Only a refusal counts. What makes a request wait may have changed when a run is due.
  if (verdict->kind == policy::Verdict::Kind::kRefused) return Refusal(403, verdict->message);
  return {};
}

}  // namespace strobe::admission
