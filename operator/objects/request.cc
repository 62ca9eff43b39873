#include "operator/objects/request.h"

#include <algorithm>

#include "capture/spec.h"
#include "collector/store/logdir.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/condition.h"
#include "operator/base/json_fields.h"
#include "operator/base/label_selector.h"
#include "operator/base/names.h"
#include "operator/base/requester_json.h"
#include "operator/job/shape.h"

namespace strobe::objects {
namespace {

using Json = nlohmann::json;

// The CRD's default, which objects from before that default lack.
constexpr Nanos kReadyTimeout = std::chrono::seconds(30);
constexpr std::uint32_t kMaxSteps = 10'000;
constexpr std::int64_t kMaxStepNumber = std::int64_t{1} << 53;
constexpr Nanos kMaxStart = std::chrono::hours(1), kMaxCollect = std::chrono::hours(2);

// The CRD's limits, which an older schema lacks.
constexpr std::size_t kMaxTargets = 16, kMaxTargetName = 32;

// `field` names the target in messages: "target".
absl::StatusOr<job::TargetSpec> ReadTarget(const Json& target, const std::string& field) {
  job::TargetSpec spec;
  if (target.contains("selector")) {
    ASSIGN_OR_RETURN(const kube::LabelSelector selector,
                     kube::ReadSelector(target["selector"], StrCat(field, ".selector")));
    // An empty selector would select every pod of the namespace.
    if (selector.requirements.empty())
      return absl::InvalidArgumentError(StrCat(field, ".selector is empty"));
    spec.selector = selector.ToText();
  }
  if (target.contains("jobRef")) {
    const Json& job = target["jobRef"];
    spec.job =
        kube::JobRef{job.value("apiVersion", ""), job.value("kind", ""), job.value("name", "")};
  }
  spec.pods = target.value("pods", std::vector<std::string>());
  spec.container = target.value("container", "");
  spec.expected_workers = target.value("expectedWorkers", std::size_t{0});
  if (spec.expected_workers > job::kMaxWorkers) {
    return absl::InvalidArgumentError(
        StrCat(field, ".expectedWorkers must be at most ", job::kMaxWorkers));
  }
  const Json workers = target.value("workers", Json::object());
  spec.sample = workers.value("policy", "All") == "Sample";
  spec.count = workers.value("count", std::size_t{0});
  if (workers.contains("turn")) spec.rotation = workers["turn"].get<std::uint64_t>();
  spec.ranks = workers.value("ranks", std::vector<int>());
  spec.local_ranks = workers.value("localRanks", std::vector<std::uint32_t>());
  return spec;
}

// minWorkers is a number or a percentage.
std::string ReadLeast(const Json& object, const std::string& otherwise) {
  if (!object.contains("minWorkers")) return otherwise;
  const Json& least = object["minWorkers"];
  return least.is_number() ? StrCat(least.get<int>()) : least.get<std::string>();
}

// A target's name is part of the names of files and of messages.
bool IsTargetName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxTargetName && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

absl::Status ReadTargets(const Json& spec, ProfileRequest& request) {
  if (!spec.contains("targets")) {
    ASSIGN_OR_RETURN(request.target, ReadTarget(spec.value("target", Json::object()), "target"));
    return absl::OkStatus();
  }
  const Json& list = spec["targets"];
  if (spec.contains("target"))
    return absl::InvalidArgumentError("target and targets exclude each other");
  if (!list.is_array() || list.empty() || list.size() > kMaxTargets)
    return absl::InvalidArgumentError(StrCat("targets must have 1 to ", kMaxTargets, " entries"));
  if (list.size() > 1 && spec.contains("steps"))
    return absl::InvalidArgumentError("steps needs one target, because roles count steps apart");
  for (const Json& entry : list) {
    const std::string name = entry.value("name", "");
    if (!IsTargetName(name))
      return absl::InvalidArgumentError(StrCat("targets: the name \"", name, "\" must be at most ",
                                               kMaxTargetName,
                                               " lower-case letters, digits and hyphens"));
    for (const job::TargetSpec& other : request.targets) {
      if (other.name == name)
        return absl::InvalidArgumentError(StrCat("targets: two have the name ", name));
    }
    ASSIGN_OR_RETURN(job::TargetSpec target, ReadTarget(entry, StrCat("targets.", name)));
    target.name = name;
    target.min_workers = ReadLeast(entry, "");
    target.some_replicas = !entry.contains("workers");
    request.targets.push_back(std::move(target));
  }
  return absl::OkStatus();
}

absl::Status ReadSteps(const Json& spec, const Json& step, capture::Spec& capture) {
  if (!spec.contains("steps")) {
    return step.empty() ? absl::OkStatus() : absl::InvalidArgumentError("start.step needs steps");
  }
  capture::StepsWanted wanted{.count = spec["steps"].get<std::uint32_t>()};
  if (wanted.count < 1 || wanted.count > kMaxSteps)
    return absl::InvalidArgumentError(StrCat("steps must be from 1 to ", kMaxSteps));
  if (step.contains("number")) wanted.from = capture::StepsWanted::From::kNumber;
  if (step.contains("multipleOf")) wanted.from = capture::StepsWanted::From::kMultipleOf;
  wanted.number = step.value("number", step.value("multipleOf", std::int64_t{0}));
  const bool multiple = wanted.from == capture::StepsWanted::From::kMultipleOf;
  if (wanted.number < (multiple ? 1 : 0) || wanted.number > kMaxStepNumber) {
    return absl::InvalidArgumentError(
        "start.step.number must be from 0, start.step.multipleOf from 1, to 2^53");
  }
  capture.steps = wanted;
  return absl::OkStatus();
}

absl::StatusOr<std::uint32_t> ReadLevel(const Json& tracers, const char* field,
                                        std::span<const std::string_view> names,
                                        std::uint32_t preset) {
  const auto found = tracers.find(field);
  if (found == tracers.end()) return preset;
  // Requests that were stored before levels had names. The API server accepts no new ones.
  if (found->is_number_unsigned() && found->get<std::uint64_t>() < names.size())
    return found->get<std::uint32_t>();
  const std::optional<std::uint32_t> level =
      capture::LevelOfName(names, found->is_string() ? found->get_ref<const std::string&>() : "");
  if (!level)
    return absl::InvalidArgumentError(
        StrCat("tracers.", field, " must be one of ", capture::LevelNames(names)));
  return *level;
}

absl::Status ReadTracers(const Json& tracers, v1::Tracers& read) {
  ASSIGN_OR_RETURN(const std::uint32_t host,
                   ReadLevel(tracers, "host", capture::kHostLevels, capture::kDefaultHostLevel));
  ASSIGN_OR_RETURN(const std::uint32_t device,
                   ReadLevel(tracers, "device", kDeviceModes, capture::kDefaultDeviceLevel));
  ASSIGN_OR_RETURN(const std::uint32_t python,
                   ReadLevel(tracers, "python", capture::kSwitchLevels, 0));
  read.set_host(host);
  read.set_device(device);
  read.set_python(python);
  read.set_host_filter(tracers.value("hostFilter", 0u));
  read.set_shapes(tracers.value("shapes", false));
  read.set_stacks(tracers.value("stacks", false));
  read.set_memory(tracers.value("memory", false));
  read.set_flops(tracers.value("flops", false));
  read.set_modules(tracers.value("modules", false));
  read.set_keep_original(tracers.value("keepOriginal", false));
  read.set_detach(tracers.value("detach", false));
  return absl::OkStatus();
}

// On the wire, 0 means that there is no limit.
absl::Status ReadAbortWhen(const Json& abort, capture::Spec& capture) {
  if (abort.contains("memoryPercent")) {
    const Json& percent = abort["memoryPercent"];
    const bool never = percent == "Never";
    if (!never && !percent.is_number_unsigned())
      return absl::InvalidArgumentError(
          "abortWhen.memoryPercent must be a number from 1 to 100, or Never for no limit");
    capture.abort_memory_percent = never ? 0 : percent.get<std::uint32_t>();
  }
  capture.abort_slowdown_percent = abort.value("slowdownPercent", capture.abort_slowdown_percent);
  return absl::OkStatus();
}

// Evidence takes no time. The schema refuses these fields, but an older schema may be installed.
absl::Status ReadRecord(const Json& spec, capture::Spec& capture) {
  const std::string record = spec.value("record", "Trace");
  capture.collects_evidence = record == "Evidence";
  if (!capture.collects_evidence)
    return record == "Trace" ? absl::OkStatus()
                             : absl::InvalidArgumentError("record must be Trace or Evidence");
  for (const char* field : kTimeFields) {
    if (spec.contains(field))
      return absl::InvalidArgumentError(StrCat("record Evidence takes no time; omit ", field));
  }
  if (spec.contains("targets"))
    return absl::InvalidArgumentError("record Evidence needs target: a stall is one job's");
  if (capture.preflight_only)
    return absl::InvalidArgumentError("preflightOnly applies to traces; omit it with Evidence");
  capture.duration = Nanos{0};
  capture.ready_timeout = Nanos{0};
  return absl::OkStatus();
}

absl::Status ReadFields(const Json& spec, ProfileRequest& request) {
  capture::Spec& capture = request.capture;
  RETURN_IF_ERROR(ReadTargets(spec, request));
  RETURN_IF_ERROR(kube::ReadDuration(spec, "duration", capture.duration));
  RETURN_IF_ERROR(kube::ReadDuration(spec, "lookBack", capture.look_back));
  const Json start = spec.value("start", Json::object());
  RETURN_IF_ERROR(ReadSteps(spec, start.value("step", Json::object()), capture));
  RETURN_IF_ERROR(kube::ReadDuration(start, "delay", capture.delay));
  RETURN_IF_ERROR(kube::ReadDuration(start, "guard", capture.guard));
  capture.ready_timeout = kReadyTimeout;
  RETURN_IF_ERROR(kube::ReadDuration(start, "readyTimeout", capture.ready_timeout));
  capture.min_running_requests = start.value("minRunningRequests", std::uint32_t{0});
  capture.at = kube::ReadTime(start, "at");
  if (start.contains("at") && !capture.at)
    return absl::InvalidArgumentError("start.at is not a time between 1970 and 2100");
  RETURN_IF_ERROR(kube::ReadDuration(spec, "collectTimeout", capture.collect_timeout));
  RETURN_IF_ERROR(kube::ReadDuration(spec, "maxSkew", capture.max_skew));
  RETURN_IF_ERROR(kube::ReadDuration(spec, "maxPause", capture.max_pause));
  capture.on_late_start = spec.value("onLateStart", "Keep") == "Discard"
                              ? capture::OnLateStart::kDiscard
                              : capture::OnLateStart::kKeep;
  request.min_workers = ReadLeast(spec, request.min_workers);
  capture.attempts = spec.value("attempts", 3);
  ASSIGN_OR_RETURN(const storage::Logdir logdir, storage::Logdir::Parse(spec.value("logdir", "")));
  capture.logdir = logdir.url();
  capture.run =
      spec.value("run", storage::DefaultRunName(request.created, request.name, request.uid));
  // A run that was started keeps its name, even if a later version would choose another one.
  if (const std::string begun = storage::RunOfUrl(request.status.run, request.status.attempt);
      !begun.empty())
    capture.run = begun;
  RETURN_IF_ERROR(ReadTracers(spec.value("tracers", Json::object()), capture.tracers));
  const std::string source = spec.value("source", "Auto");
  capture.source = source == "Framework" ? v1::SOURCE_FRAMEWORK
                   : source == "Agent"   ? v1::SOURCE_AGENT
                                         : v1::SOURCE_AUTO;
  capture.preflight_only = spec.value("preflightOnly", false);
  RETURN_IF_ERROR(ReadRecord(spec, capture));
  RETURN_IF_ERROR(kube::ReadBytes(spec, "maxBytesPerWorker", capture.max_bytes));
  RETURN_IF_ERROR(ReadAbortWhen(spec.value("abortWhen", Json::object()), capture));
  // The CRD's schema refuses these values, but an older schema may be installed.
  if (capture.delay.value_or(Nanos{0}) > kMaxStart || capture.ready_timeout > kMaxStart)
    return absl::InvalidArgumentError("start.delay and start.readyTimeout must be at most 1h");
  if (capture.max_pause && (*capture.max_pause < kLeastPause || *capture.max_pause > kLongestPause))
    return absl::InvalidArgumentError("maxPause must be from 1ms to 10m");
  if (capture.look_back > kMaxLookBack)
    return absl::InvalidArgumentError("lookBack must be at most 10m");
  if (capture.collect_timeout.value_or(Nanos{0}) > kMaxCollect)
    return absl::InvalidArgumentError("collectTimeout must be at most 2h");
  RETURN_IF_ERROR(kube::ReadDuration(spec, "ttlAfterFinished", request.ttl));
  request.reclaim = spec.value("reclaimPolicy", "Retain") == "Delete";
  request.cancel = spec.value("cancel", false);
  return absl::OkStatus();
}

absl::Status ReadSpec(const Json& spec, ProfileRequest& request) {
  try {
    return ReadFields(spec, request);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat("a field has the wrong type: ", error.what()));
  }
}

void ReadStall(const Json& object, StatusStall& stall) {
  stall.kind = object.value("class", "");
  stall.confidence = object.value("confidence", "");
  stall.verdict = object.value("verdict", "");
  stall.details = object.value("details", std::vector<std::string>());
  stall.stacks = object.value("stacks", std::vector<std::string>());
  for (const Json& entry : object.value("culprits", Json::array())) {
    stall.culprits.push_back({.rank = entry.value("rank", -1),
                              .pod = entry.value("pod", ""),
                              .node = entry.value("node", ""),
                              .line = entry.value("line", "")});
  }
}

void ReadStatus(const Json& object, RequestStatus& status) {
  status.observed_generation = object.value("observedGeneration", std::int64_t{0});
  status.conditions = kube::ReadConditions(object);
  status.run = object.value("run", "");
  status.viewer = object.value("viewer", "");
  status.start_time = kube::ReadTime(object, "startTime");
  status.completion_time = kube::ReadTime(object, "completionTime");
  status.retry_time = kube::ReadTime(object, "retryTime");
  // The status may contain any number, and attempts are iterated, so the number is limited.
  constexpr int kMaxAttempts = 10;
  status.attempt = std::clamp(object.value("attempt", 0), 0, kMaxAttempts);
  status.queue_position = object.value("queuePosition", std::size_t{0});
  const Json workers = object.value("workers", Json::object());
  status.matched = workers.value("matched", std::size_t{0});
  if (workers.contains("expected")) status.expected = workers["expected"].get<std::size_t>();
  status.armed = workers.value("armed", std::size_t{0});
  status.ok = workers.value("ok", std::size_t{0});
  status.empty = workers.value("empty", std::size_t{0});
  status.failed = workers.value("failed", std::size_t{0});
  for (const Json& entry : object.value("targets", Json::array())) {
    const Json apart = entry.value("skew", Json::object());
    status.targets.push_back({.name = entry.value("name", ""),
                              .pods = entry.value("pods", std::size_t{0}),
                              .ok = entry.value("ok", std::size_t{0}),
                              .skew = apart.value("achieved", ""),
                              .skew_error = apart.value("error", "")});
  }
  const Json skew = object.value("skew", Json::object());
  status.skew = skew.value("achieved", "");
  status.skew_error = skew.value("error", "");
  const Json steps = object.value("steps", Json::object());
  status.steps_loop = steps.value("loop", "");
  status.first_step = steps.value("first", std::int64_t{0});
  status.last_step = steps.value("last", std::int64_t{0});
  status.steps_spread = steps.value("spread", "");
  status.reached_back = object.value("reachedBack", "");
  // A text that is no duration is as good as none.
  (void)kube::ReadDuration(object, "recorded", status.recorded);
  const Json clock = object.value("clock", Json::object());
  status.clock_pod = clock.value("pod", "");
  status.clock_offset = clock.value("offset", "");
  status.clock_error = clock.value("error", "");
  status.report = object.value("report", Json::object()).value("headline", "");
  ReadStall(object.value("stall", Json::object()), status.stall);
  status.bytes = object.value("bytes", std::uint64_t{0});
  for (const Json& entry : object.value("outcomes", Json::array())) {
    status.outcomes.push_back({.pod = entry.value("pod", ""),
                               .cause = entry.value("cause", ""),
                               .message = entry.value("message", ""),
                               .lateness = entry.value("lateness", "")});
  }
  for (const Json& entry : object.value("causes", Json::array()))
    status.causes.push_back({entry.value("cause", ""), entry.value("workers", std::size_t{0})});
  for (const Json& entry : object.value("preflight", Json::array())) {
    const Json measured = entry.value("clock", Json::object());
    status.preflight.push_back({.pod = entry.value("pod", ""),
                                .cause = entry.value("cause", ""),
                                .message = entry.value("message", ""),
                                .sidecar = entry.value("sidecar", ""),
                                .clock_offset = measured.value("offset", ""),
                                .clock_error = measured.value("error", ""),
                                .sources = entry.value("sources", std::vector<std::string>())});
  }
  for (const Json& entry : object.value("progress", Json::array())) {
    status.progress.push_back({entry.value("state", ""), entry.value("workers", std::size_t{0}),
                               entry.value("pods", std::vector<std::string>())});
  }
}

// An object of the pairs whose text is not empty.
Json Texts(std::initializer_list<std::pair<const char*, std::string>> pairs) {
  Json object = Json::object();
  for (const auto& [key, text] : pairs) {
    if (!text.empty()) object[key] = text;
  }
  return object;
}

Json StallToJson(const StatusStall& stall) {
  Json json =
      Texts({{"class", stall.kind}, {"confidence", stall.confidence}, {"verdict", stall.verdict}});
  if (!stall.details.empty()) json["details"] = stall.details;
  if (!stall.stacks.empty()) json["stacks"] = stall.stacks;
  for (const capture::StallCulprit& culprit : stall.culprits) {
    Json entry = Texts({{"pod", culprit.pod}, {"node", culprit.node}, {"line", culprit.line}});
    entry["rank"] = culprit.rank;
    json["culprits"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

std::span<const job::TargetSpec> TargetsOf(const ProfileRequest& request) {
  if (request.targets.empty()) return {&request.target, 1};
  return request.targets;
}

const kube::Condition* FindCondition(const RequestStatus& status, std::string_view type) {
  return kube::FindCondition(status.conditions, type);
}

bool IsFinished(const RequestStatus& status) {
  const kube::Condition* succeeded = FindCondition(status, condition::kSucceeded);
  return succeeded != nullptr && succeeded->status != kube::ConditionStatus::kUnknown;
}

std::string RequestsPath(const std::string& ns) {
  return kube::CollectionPath(ns, kube::kRequestsResource);
}

std::string RequestPath(const std::string& ns, const std::string& name) {
  return StrCat(RequestsPath(ns), "/", name);
}

absl::StatusOr<ProfileRequest> ParseRequest(const Json& object) {
  try {
    ProfileRequest request;
    const Json& metadata = object.at("metadata");
    kube::ReadMetadata(metadata, request);
    request.deleted = kube::ReadTime(metadata, "deletionTimestamp").value_or(WallTime{});
    request.finalizers = metadata.value("finalizers", std::vector<std::string>());
    if (std::optional<kube::StampedRequester> stamped = kube::RequesterOf(object, request.ns)) {
      request.requester = std::move(stamped->requester);
      request.admission = std::move(stamped->admission);
      request.seal = std::move(stamped->seal);
    }
    request.capture.request = StrCat(request.ns, "/", request.name);
    request.capture.uid = request.uid;
    ReadStatus(object.value("status", Json::object()), request.status);
    const absl::Status spec = ReadSpec(object.value("spec", Json::object()), request);
    request.invalid = MessageOf(spec);
    return request;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat("a field has the wrong type: ", error.what()));
  }
}

absl::StatusOr<job::TargetSpec> ParseTarget(const Json& target) {
  try {
    return ReadTarget(target, "target");
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat("target: a field has the wrong type: ", error.what()));
  }
}

bool IsOpen(const Json& object) {
  const Json& conditions = kube::Member(kube::Member(object, "status"), "conditions");
  const std::optional<std::size_t> succeeded =
      kube::FindBy(conditions, "type", condition::kSucceeded);
  return !succeeded || kube::TextOf(conditions[*succeeded], "status") == "Unknown";
}

std::optional<WallTime> PendingSince(const Json& object) {
  const Json& metadata = kube::Member(object, "metadata");
  if (!kube::Member(metadata, "deletionTimestamp").is_null() || !IsOpen(object))
    return std::nullopt;
  const Json& attempt = kube::Member(kube::Member(object, "status"), "attempt");
  if (attempt.is_number() && attempt > 0) return std::nullopt;
  return metadata.is_object() ? kube::ReadTime(metadata, "creationTimestamp") : std::nullopt;
}

Json StatusToJson(const ProfileRequest& request, const RequestStatus& status) {
  Json json = {{"observedGeneration", status.observed_generation},
               {"conditions", kube::ConditionsToJson(status.conditions)}};
  if (status.attempt > 0) {
    json["attempt"] = status.attempt;
    json["workers"] = {
        {"matched", status.matched}, {"armed", status.armed},
        {"ok", status.ok},           {"empty", status.empty},
        {"failed", status.failed},   {"summary", StrCat(status.ok, "/", status.matched)}};
    if (status.expected) json["workers"]["expected"] = *status.expected;
    json["bytes"] = status.bytes;
    json["size"] = RoundedQuantity(status.bytes);
  }
  if (status.queue_position > 0) json["queuePosition"] = status.queue_position;
  if (!status.run.empty()) json["run"] = status.run;
  if (!status.viewer.empty()) json["viewer"] = status.viewer;
  if (status.start_time) json["startTime"] = FormatRfc3339(*status.start_time);
  if (status.completion_time) json["completionTime"] = FormatRfc3339(*status.completion_time);
  if (status.retry_time) json["retryTime"] = FormatRfc3339(*status.retry_time);
  for (const StatusTarget& target : status.targets) {
    Json entry = {{"name", target.name}, {"pods", target.pods}, {"ok", target.ok}};
    if (!target.skew.empty())
      entry["skew"] = Texts({{"achieved", target.skew}, {"error", target.skew_error}});
    json["targets"].push_back(std::move(entry));
  }
  if (!status.skew.empty())
    json["skew"] = Texts({{"achieved", status.skew}, {"error", status.skew_error}});
  if (!status.steps_loop.empty()) {
    json["steps"] = Texts({{"loop", status.steps_loop}, {"spread", status.steps_spread}});
    json["steps"]["first"] = status.first_step;
    json["steps"]["last"] = status.last_step;
  }
  if (!status.reached_back.empty()) json["reachedBack"] = status.reached_back;
  if (status.recorded) json["recorded"] = FormatDuration(*status.recorded);
  if (!status.clock_pod.empty()) {
    json["clock"] = Texts({{"pod", status.clock_pod},
                           {"offset", status.clock_offset},
                           {"error", status.clock_error}});
  }
  if (!status.report.empty()) json["report"] = {{"headline", status.report}};
  if (!status.stall.kind.empty()) json["stall"] = StallToJson(status.stall);
  if (!status.outcomes.empty()) {
    Json outcomes = Json::array();
    for (const StatusOutcome& outcome : status.outcomes) {
      outcomes.push_back(Texts({{"pod", outcome.pod},
                                {"cause", outcome.cause},
                                {"message", outcome.message},
                                {"lateness", outcome.lateness}}));
    }
    json["outcomes"] = std::move(outcomes);
  }
  for (const StatusPreflight& told : status.preflight) {
    Json entry = Texts({{"pod", told.pod},
                        {"cause", told.cause},
                        {"message", told.message},
                        {"sidecar", told.sidecar}});
    if (!told.sources.empty()) entry["sources"] = told.sources;
    if (!told.clock_offset.empty())
      entry["clock"] = Texts({{"offset", told.clock_offset}, {"error", told.clock_error}});
    json["preflight"].push_back(std::move(entry));
  }
  for (const capture::WorkersInState& in : status.progress)
    json["progress"].push_back({{"state", in.state}, {"workers", in.workers}, {"pods", in.names}});
  for (const StatusCause& cause : status.causes)
    json["causes"].push_back({{"cause", cause.cause}, {"workers", cause.workers}});
  // The UID prevents writing to a new object with the same name. The version prevents overwriting a
  // status that this operator has not seen: a former leader must not undo its successor's writes.
  return {{"apiVersion", kube::kApiVersion},
          {"kind", kube::kRequestKind},
          {"metadata", Texts({{"name", request.name},
                              {"namespace", request.ns},
                              {"uid", request.uid},
                              {"resourceVersion", request.resource_version}})},
          {"status", std::move(json)}};
}

}  // namespace strobe::objects
