#include "cli/kube/capture_request.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "cli/kube/target_argument.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/names.h"

namespace strobe::cluster {
namespace {

using Json = nlohmann::ordered_json;
using Kind = FieldFlag::Kind;

// A name with five appended letters must have at most 253 characters, and names of runs less.
constexpr std::size_t kMaxPrefix = 100;
constexpr std::string_view kPreflightTtl = "10m", kEvidenceTtl = "24h";

// Headings of flags in the help.
constexpr std::string_view kTimeGroup = "When it records";
constexpr std::string_view kWorkersGroup = "Which workers, and when the capture succeeds";
constexpr std::string_view kTracersGroup = "What it records";
constexpr std::string_view kKeptGroup = "What is kept";

constexpr std::array kFieldFlags = {
    FieldFlag{"--duration", "/duration", Kind::kText, "DURATION", "how long to record, 1ms to 10m"},
    FieldFlag{"--steps", "/steps", Kind::kNumber, "NUMBER",
              "record this many training steps, the same ones on all workers, instead of a time "
              "window"},
    FieldFlag{"--look-back", "/lookBack", Kind::kText, "DURATION",
              "how far back before the start to record, at most 10m", kTimeGroup},
    FieldFlag{"--ranks", "/target/workers/ranks", Kind::kNumbers, "RANKS",
              "record only these ranks of the job, such as 0,7", kWorkersGroup},
    FieldFlag{"--sample", "/target/workers/count", Kind::kNumber, "NUMBER",
              "record only this many workers, evenly spread over the ranks", kWorkersGroup},
    FieldFlag{"--local-ranks", "/target/workers/localRanks", Kind::kNumbers, "RANKS",
              "record only these local ranks of each pod, such as 0", kWorkersGroup},
    FieldFlag{"--container", "/target/container", Kind::kText, "NAME",
              "record only the programs of this container", kWorkersGroup},
    FieldFlag{"--expected-workers", "/target/expectedWorkers", Kind::kNumber, "NUMBER",
              "how many workers should exist", kWorkersGroup},
    FieldFlag{"--logdir", "/logdir", Kind::kText, "URL",
              "where the run is written, as the workers see it"},
    FieldFlag{"--run", "/run", Kind::kText, "NAME", "name of the run"},
    FieldFlag{"--delay", "/start/delay", Kind::kText, "DURATION", "start this long from now",
              kTimeGroup},
    FieldFlag{"--ready-timeout", "/start/readyTimeout", Kind::kText, "DURATION",
              "how long to wait for workers that are busy or not available yet", kTimeGroup},
    FieldFlag{"--min-running-requests", "/start/minRunningRequests", Kind::kNumber, "NUMBER",
              "wait until each inference server has this many requests", kTimeGroup},
    FieldFlag{"--guard", "/start/guard", Kind::kText, "DURATION",
              "extra time to record before and after the window", kTimeGroup},
    FieldFlag{"--max-skew", "/maxSkew", Kind::kText, "DURATION",
              "largest time between the starts of two workers", kTimeGroup},
    FieldFlag{"--max-pause", "/maxPause", Kind::kText, "DURATION",
              "leave out programs that would stand still for longer when their recording ends",
              kTimeGroup},
    FieldFlag{"--collect-timeout", "/collectTimeout", Kind::kText, "DURATION",
              "how long collecting and uploading may take", kTimeGroup},
    FieldFlag{"--on-late-start", "/onLateStart", Kind::kText, "Keep|Discard",
              "what to do with a trace that does not cover the whole window", kWorkersGroup},
    FieldFlag{"--min-workers", "/minWorkers", Kind::kNumberOrText, "NUMBER|PERCENT",
              "how many workers must have a usable trace", kWorkersGroup},
    FieldFlag{"--attempts", "/attempts", Kind::kNumber, "NUMBER", "maximum number of attempts",
              kWorkersGroup},
    FieldFlag{"--source", "/source", Kind::kText, "Auto|Framework|Agent",
              "where the events come from", kTracersGroup},
    FieldFlag{"--host-tracer-level", "/tracers/host", Kind::kText, "LEVEL",
              "on the host: Disabled, Critical, Info or Verbose", kTracersGroup},
    FieldFlag{"--device-tracer-level", "/tracers/device", Kind::kText, "LEVEL",
              "of accelerators: Disabled, Enabled, Kernels, Launches, Graphs or All",
              kTracersGroup},
    FieldFlag{"--python-tracer-level", "/tracers/python", Kind::kText, "LEVEL",
              "Python calls: Enabled or Disabled", kTracersGroup},
    FieldFlag{"--max-bytes-per-worker", "/maxBytesPerWorker", Kind::kText, "QUANTITY",
              "refuse traces that are larger than this, such as 512Mi", kTracersGroup},
    FieldFlag{"--ttl", "/ttlAfterFinished", Kind::kText, "DURATION",
              "delete the request this long after its end, such as 24h", kKeptGroup},
    FieldFlag{"--reclaim-policy", "/reclaimPolicy", Kind::kText, "Retain|Delete",
              "whether deleting the request keeps the run's files", kKeptGroup},
};

absl::StatusOr<Json> ValueOf(const FieldFlag& field, const std::string& text) {
  std::int64_t number = 0;
  switch (field.kind) {
    case Kind::kText:
      return Json(text);
    case Kind::kNumber:
      if (absl::SimpleAtoi(text, &number)) return Json(number);
      break;
    case Kind::kNumberOrText:
      return absl::SimpleAtoi(text, &number) ? Json(number) : Json(text);
    case Kind::kNumbers: {
      Json numbers = Json::array();
      for (const std::string& part : Split(text, ',')) {
        if (!absl::SimpleAtoi(part, &number))
          return absl::InvalidArgumentError(
              StrCat(field.flag, " \"", text, "\" must be numbers, such as 0,7"));
        numbers.push_back(number);
      }
      return numbers;
    }
  }
  return absl::InvalidArgumentError(StrCat(field.flag, " \"", text, "\" must be a number"));
}

// Each of spec.targets or, without them, spec.target.
std::vector<Json*> TargetsIn(Json& spec) {
  std::vector<Json*> targets;
  if (!spec.contains("targets") || !spec["targets"].is_array()) return {&spec["target"]};
  for (Json& target : spec["targets"]) targets.push_back(&target);
  return targets;
}

// Sets the target or the targets, if the command line names any.
absl::Status SetTargets(const CaptureRequestFlags& flags, Json& spec) {
  if (HasTargetName(flags.target)) {
    if (!flags.selector.empty()) {
      return absl::InvalidArgumentError(
          "--selector is for one target; write NAME=LABELS, such as decode=app=vllm-d");
    }
    ASSIGN_OR_RETURN(spec["targets"], NamedTargetsOf(flags.target));
    spec.erase("target");
    return absl::OkStatus();
  }
  const bool named = !flags.target.empty() || !flags.selector.empty();
  if (!named && (spec.contains("target") || spec.contains("targets"))) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Json target, TargetOf(flags.target, flags.selector));
  spec.erase("targets");
  if (spec.contains("target") && spec["target"].is_object()) {
    for (const char* chosen : {"selector", "jobRef", "pods"}) spec["target"].erase(chosen);
  }
  spec["target"].update(target);
  return absl::OkStatus();
}

// Sets the field of the spec, or of each of its targets.
void SetField(const FieldFlag& field, const Json& value, Json& spec) {
  constexpr std::string_view kTarget = "/target";
  if (!field.pointer.starts_with(kTarget)) {
    spec[Json::json_pointer(std::string(field.pointer))] = value;
    return;
  }
  const Json::json_pointer inside(std::string(field.pointer.substr(kTarget.size())));
  for (Json* target : TargetsIn(spec)) (*target)[inside] = value;
}

absl::Status SetStep(const std::string& text, Json& spec) {
  if (text.empty()) return absl::OkStatus();
  std::int64_t number = 0;
  if (text == "next")
    spec["start"]["step"] = {{"next", true}};
  else if (text.starts_with('*') && absl::SimpleAtoi(text.substr(1), &number))
    spec["start"]["step"] = {{"multipleOf", number}};
  else if (absl::SimpleAtoi(text, &number))
    spec["start"]["step"] = {{"number", number}};
  else
    return absl::InvalidArgumentError(
        StrCat("--at-step \"", text,
               "\" must be next, a step number, or * and a number for the next multiple"));
  return absl::OkStatus();
}

void SetName(const CaptureRequestFlags& flags, Json& metadata) {
  if (!flags.name.empty()) {
    metadata.erase("generateName");
    metadata["name"] = flags.name;
    return;
  }
  if (metadata.contains("name") || metadata.contains("generateName")) return;
  const std::string target = NameOfTarget(flags.target);
  metadata["generateName"] = StrCat(target.empty() ? "capture" : target.substr(0, kMaxPrefix), "-");
}

// Lets the API server append letters to the name, with the prefix before it.
void NameAfter(std::string_view prefix, Json& metadata) {
  const std::string named = metadata.value("name", metadata.value("generateName", "capture"));
  metadata.erase("name");
  metadata["generateName"] =
      StrCat(prefix, named.substr(0, kMaxPrefix), named.ends_with('-') ? "" : "-");
}

}  // namespace

std::span<const FieldFlag> FieldFlags() { return kFieldFlags; }

absl::StatusOr<Json> RequestOf(const CaptureRequestFlags& flags, const Json& base) {
  Json request = base;
  if (base.is_null()) {
    request = {{"apiVersion", kube::kApiVersion},
               {"kind", kube::kRequestKind},
               {"metadata", Json::object()},
               {"spec", Json::object()}};
  } else if (!base.is_object() || base.value("kind", "") != kube::kRequestKind ||
             !base.value("spec", Json::object()).is_object()) {
    return absl::InvalidArgumentError("--from must name a file with one ProfileRequest");
  }
  Json& spec = request["spec"];
  RETURN_IF_ERROR(SetTargets(flags, spec));
  for (const FieldFlag& field : kFieldFlags) {
    const auto given = flags.fields.find(std::string(field.flag));
    if (given == flags.fields.end() || given->second.empty()) continue;
    ASSIGN_OR_RETURN(const Json value, ValueOf(field, given->second));
    SetField(field, value, spec);
  }
  // The API asks for this policy where workers are chosen.
  for (Json* target : TargetsIn(spec)) {
    if (!target->is_object() || !target->contains("workers")) continue;
    Json& workers = (*target)["workers"];
    if (workers.contains("count") || workers.contains("ranks")) workers["policy"] = "Sample";
  }
  if (const absl::Status set = SetStep(flags.at_step, spec); !set.ok()) return set;
  SetName(flags, request["metadata"]);
  return request;
}

void MakePreflight(Json& request) {
  NameAfter("check-", request["metadata"]);
  request["spec"]["preflightOnly"] = true;
  request["spec"]["ttlAfterFinished"] = kPreflightTtl;
  request["spec"].erase("reclaimPolicy");
}

void MakeEvidence(Json& request) {
  NameAfter("why-", request["metadata"]);
  request["spec"]["record"] = "Evidence";
  request["spec"]["ttlAfterFinished"] = kEvidenceTtl;
}

}  // namespace strobe::cluster
