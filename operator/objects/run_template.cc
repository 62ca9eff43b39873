#include "operator/objects/run_template.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/protocol/outcome.h"
#include "operator/base/json_fields.h"
#include "operator/base/label_selector.h"
#include "operator/base/names.h"
#include "operator/base/requester_json.h"
#include "operator/job/target_spec.h"
#include "operator/objects/request.h"
#include "operator/policy/capture_budget.h"

namespace strobe::objects {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kKeptByDefault = 3, kMaxKept = 1000;
constexpr Nanos kMinKeepFor = std::chrono::minutes(1);
// Attempts that are counted of one run, at most: the number comes from a status.
constexpr std::int64_t kMaxCountedAttempts = 100;
// Stands for the default that each run gets from a policy.
constexpr char kSomeLogdir[] = "/default";

}  // namespace

std::string KindName(kube::CreatorKind kind) {
  return kind == kube::CreatorKind::kSchedule ? "ProfileSchedule" : "ProfileTrigger";
}

std::string CreatorsPath(kube::CreatorKind kind, const std::string& ns) {
  return kube::CollectionPath(ns, StrCat("profile", kube::NounOf(kind), "s"));
}

std::string CreatorPath(kube::CreatorKind kind, const std::string& ns, const std::string& name) {
  return StrCat(CreatorsPath(kind, ns), "/", name);
}

void ReadCreator(const Json& object, kube::RunCreator& creator) {
  kube::ReadMetadata(object.at("metadata"), creator);
  if (std::optional<kube::StampedRequester> stamped =
          kube::CreatorRequesterOf(creator.kind, object, creator.ns)) {
    creator.requester = std::move(stamped->requester);
    creator.admission = std::move(stamped->admission);
    creator.seal = std::move(stamped->seal);
    creator.sealed_uid = std::move(stamped->uid);
    creator.admitted = stamped->admitted;
  }
}

absl::StatusOr<kube::RunCreator> ParseCreator(kube::CreatorKind kind, const Json& object) {
  try {
    kube::RunCreator creator(kind);
    ReadCreator(object, creator);
    return creator;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat("a field has the wrong type: ", error.what()));
  }
}

absl::Status ReadHistory(const Json& spec, kube::RunCreator& creator) {
  creator.suspend = spec.value("suspend", false);
  creator.keep_succeeded =
      std::min(spec.value("successfulRunsHistoryLimit", kKeptByDefault), kMaxKept);
  creator.keep_failed = std::min(spec.value("failedRunsHistoryLimit", kKeptByDefault), kMaxKept);
  RETURN_IF_ERROR(kube::ReadDuration(spec, "keepFor", creator.keep_for));
  // The schema refuses less, but an older schema may be installed.
  if (creator.keep_for && *creator.keep_for < kMinKeepFor)
    return absl::InvalidArgumentError("keepFor: it must be at least 1m");
  return absl::OkStatus();
}

std::string WhyNameTooLong(const kube::RunCreator& creator) {
  if (creator.name.size() <= kube::kMaxCreatorName) return "";
  return StrCat("metadata.name: a ", kube::NounOf(creator.kind), "'s name has at most ",
                kube::kMaxCreatorName, " characters, because it is a label of its runs");
}

absl::Status CheckTemplateLabels(const Json& spec) {
  const Json metadata = spec.value("template", Json::object()).value("metadata", Json::object());
  for (const char* field : {"labels", "annotations"}) {
    const Json entries = metadata.value(field, Json::object());
    for (const auto& [key, value] : entries.items()) {
      absl::Status good =
          key.starts_with(kube::kNamePrefix)
              ? absl::InvalidArgumentError("Strobe writes those of strobe.dev itself")
              : kube::CheckLabelKey(key);
      if (good.ok() && std::string_view(field) == "labels")
        good = kube::CheckLabelValue(value.get<std::string>());
      if (!good.ok()) {
        return absl::InvalidArgumentError(
            StrCat("template.metadata.", field, ": ", key, ": ", MessageOf(good)));
      }
    }
  }
  return absl::OkStatus();
}

Json ReadTemplateOf(const Json& spec) {
  const Json given = spec.value("template", Json::object());
  const Json metadata = given.value("metadata", Json::object());
  Json run = {{"metadata", Json::object()}, {"spec", given.value("spec", Json::object())}};
  for (const char* field : {"labels", "annotations"})
    run["metadata"][field] = metadata.value(field, Json::object());
  return run;
}

absl::Status ApplySample(const Json& spec, Json& run, bool& rotates) {
  if (!spec.contains("sample")) return absl::OkStatus();
  Json& workers = run["spec"]["target"]["workers"];
  if (workers.contains("count") || workers.contains("ranks")) {
    return absl::InvalidArgumentError(
        "sample chooses the workers: omit template.spec.target.workers.count and ranks");
  }
  workers["policy"] = "Sample";
  workers["count"] = spec["sample"].at("workers");
  rotates = spec["sample"].value("rotate", true);
  return absl::OkStatus();
}

absl::Status CheckRun(Json run) {
  if (!run["spec"].contains("logdir")) run["spec"]["logdir"] = kSomeLogdir;
  ASSIGN_OR_RETURN(const ProfileRequest request, ParseRequest(run));
  if (request.invalid.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("template.spec.", request.invalid));
}

Json RunOf(const kube::RunCreator& creator, const std::string& name) {
  Json object = Json::parse(creator.run_json);
  object["apiVersion"] = kube::kApiVersion;
  object["kind"] = kube::kRequestKind;
  Json& metadata = object["metadata"];
  metadata["name"] = name;
  metadata["namespace"] = creator.ns;
  // Set here, because the operator would otherwise need one more write when the capture begins.
  metadata["finalizers"] = {kube::kFinalizer};
  metadata["ownerReferences"] = {{{"apiVersion", kube::kApiVersion},
                                  {"kind", KindName(creator.kind)},
                                  {"name", creator.name},
                                  {"uid", creator.uid},
                                  {"controller", true}}};
  return object;
}

bool SaysItIsRunOf(const Json& request, const std::string& creator_uid) {
  const Json& owners = kube::Member(kube::Member(request, "metadata"), "ownerReferences");
  return !creator_uid.empty() && kube::FindBy(owners, "uid", creator_uid).has_value();
}

kube::CreatedRun ParseRun(const Json& request) {
  const Json& metadata = kube::Member(request, "metadata");
  const Json& status = kube::Member(request, "status");
  kube::CreatedRun run;
  run.name = kube::TextOf(metadata, "name");
  run.uid = kube::TextOf(metadata, "uid");
  run.deleting = !kube::Member(metadata, "deletionTimestamp").is_null();
  run.cancelling = kube::Member(kube::Member(request, "spec"), "cancel") == true;
  const Json& conditions = kube::Member(status, "conditions");
  const std::optional<std::size_t> ended = kube::FindBy(conditions, "type", condition::kSucceeded);
  const std::string value = ended ? kube::TextOf(conditions[*ended], "status") : "Unknown";
  if (value == "True")
    run.state = kube::RunState::kSucceeded;
  else if (value == "False")
    run.state = kube::TextOf(conditions[*ended], "reason") == Name(Outcome::kCancelled)
                    ? kube::RunState::kCancelled
                    : kube::RunState::kFailed;
  if (status.is_object()) run.completion = kube::ReadTime(status, "completionTime");
  if (metadata.is_object())
    run.created = kube::ReadTime(metadata, "creationTimestamp").value_or(WallTime{});
  const Json& bytes = kube::Member(status, "bytes");
  if (bytes.is_number_unsigned()) run.bytes = bytes.get<std::uint64_t>();
  const Json& attempt = kube::Member(status, "attempt");
  std::int64_t attempts = attempt.is_number_integer() ? attempt.get<std::int64_t>() : 0;
  // A run that has not ended counts as one attempt at least: it will record.
  if (run.state == kube::RunState::kUnfinished) attempts = std::max<std::int64_t>(attempts, 1);
  const Json& spec = kube::Member(request, "spec");
  const Nanos each =
      ParseDuration(kube::TextOf(spec, "duration")).value_or(capture::Spec().duration) +
      ParseDuration(kube::TextOf(spec, "lookBack")).value_or(Nanos{0});
  const absl::StatusOr<Nanos> recorded = ParseDuration(kube::TextOf(status, "recorded"));
  // The status has no such field before an attempt has ended.
  if (!recorded.ok())
    run.recorded = std::clamp<std::int64_t>(attempts, 0, kMaxCountedAttempts) * each;
  else
    run.recorded = std::clamp<Nanos>(*recorded, Nanos{0}, policy::kBudgetDay) +
                   (run.state == kube::RunState::kUnfinished ? each : Nanos{0});
  return run;
}

absl::StatusOr<std::string> JobOfRun(const Json& request) {
  ASSIGN_OR_RETURN(const job::TargetSpec target,
                   ParseTarget(kube::Member(kube::Member(request, "spec"), "target")));
  return job::TargetText(target);
}

std::optional<kube::CreatedRun> ParseAutomaticRun(const Json& request) {
  const Json& labels = kube::Member(kube::Member(request, "metadata"), "labels");
  if (kube::TextOf(labels, kube::kScheduleLabel).empty() &&
      kube::TextOf(labels, kube::kTriggerLabel).empty())
    return std::nullopt;
  absl::StatusOr<std::string> job = JobOfRun(request);
  if (!job.ok() || kube::Member(kube::Member(request, "spec"), "preflightOnly") == true)
    return std::nullopt;
  kube::CreatedRun run = ParseRun(request);
  run.job = *std::move(job);
  return run;
}

void KeepForBudgets(Json& run) {
  const absl::StatusOr<Nanos> ttl = ParseDuration(kube::TextOf(run["spec"], "ttlAfterFinished"));
  if (ttl.ok() && *ttl < policy::kBudgetDay) run["spec"]["ttlAfterFinished"] = "24h";
}

Json CreatorStatus(const kube::RunCreator& creator, Json status) {
  // The UID and the version prevent writing about an object that is not the one that was judged.
  return {{"apiVersion", kube::kApiVersion},
          {"kind", KindName(creator.kind)},
          {"metadata",
           {{"name", creator.name},
            {"namespace", creator.ns},
            {"uid", creator.uid},
            {"resourceVersion", creator.resource_version}}},
          {"status", std::move(status)}};
}

}  // namespace strobe::objects
