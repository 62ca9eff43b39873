// What ProfileSchedules and ProfileTriggers have in common as JSON: their paths and metadata, and
// the template of the ProfileRequests that they create. No other code knows these paths.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "operator/base/run_creator.h"

namespace strobe::objects {

// "ProfileSchedule" or "ProfileTrigger".
std::string KindName(kube::CreatorKind kind);
// The path of the collection of one namespace, or of all namespaces if `ns` is empty.
std::string CreatorsPath(kube::CreatorKind kind, const std::string& ns);
std::string CreatorPath(kube::CreatorKind kind, const std::string& ns, const std::string& name);

// Metadata, and the requester from the annotation. Throws nlohmann's exceptions.
void ReadCreator(const nlohmann::json& object, kube::RunCreator& creator);
// Like ReadCreator, with an error instead of exceptions.
absl::StatusOr<kube::RunCreator> ParseCreator(kube::CreatorKind kind, const nlohmann::json& object);
// `suspend`, the history limits and `keepFor`. Throws nlohmann's exceptions.
absl::Status ReadHistory(const nlohmann::json& spec, kube::RunCreator& creator);
// For RunCreator::invalid; empty if the name can be a label.
std::string WhyNameTooLong(const kube::RunCreator& creator);

// InvalidArgument for labels and annotations that no object may have.
absl::Status CheckTemplateLabels(const nlohmann::json& spec);
// The metadata and spec of runs, for RunCreator::run_json. Throws nlohmann's exceptions.
nlohmann::json ReadTemplateOf(const nlohmann::json& spec);
// Lets the run record as many workers as `spec.sample` says. `rotates`: each run takes other
// workers.
absl::Status ApplySample(const nlohmann::json& spec, nlohmann::json& run, bool& rotates);
// Returns the error for which a ProfileRequest like this run would be refused.
absl::Status CheckRun(nlohmann::json run);

// The ProfileRequest to create. It has no requester yet, and no logdir if the template has none.
nlohmann::json RunOf(const kube::RunCreator& creator, const std::string& name);
// Whether the request says that it is a run of the creator with this UID. Any user who may
// create requests can have it say so; see SealedCreatorOf.
bool SaysItIsRunOf(const nlohmann::json& request, const std::string& creator_uid);
// Leaves out `job`, because only some readers need it.
kube::CreatedRun ParseRun(const nlohmann::json& request);
// What the request's target names; see TargetText.
absl::StatusOr<std::string> JobOfRun(const nlohmann::json& request);
// A run that a schedule or trigger has started and that records something, with its job; none if
// the request says that it is anything else. Labels tell, so that runs that have lost their owner
// count too; see SaysItIsRunOf.
std::optional<kube::CreatedRun> ParseAutomaticRun(const nlohmann::json& request);
// Lets a run live until no budget counts it any more, whatever its ttlAfterFinished says.
void KeepForBudgets(nlohmann::json& run);

// The object to apply to /status. The API server refuses it if the creator has changed since it was
// read.
nlohmann::json CreatorStatus(const kube::RunCreator& creator, nlohmann::json status);

}  // namespace strobe::objects
