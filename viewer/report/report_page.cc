#include "viewer/report/report_page.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "viewer/report/checked_fields.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kReportFormat = 1;
constexpr std::size_t kMaxReportDepth = 8;  // A report needs five levels, one by roles seven.
constexpr std::size_t kMaxRoles = 32;
constexpr std::size_t kMaxReportRows = 2000;  // A report lists no more workers.
constexpr std::size_t kMaxMapEntries = 256;   // Limits the rows of the wait map, and each row.

constexpr Field kHeldUp[] = {{"ns"}, {"errorNs"}, {"share"}, {"steps"}};
constexpr Field kCause[] = {{"cause", kText}, {"ns"}, {"errorNs"}, {"share"}};
constexpr Field kCauseEntry[] = {{"", kObject, kCause}};
constexpr Field kLate[] = {{"worker", kText},
                           {"verdict", kText},
                           {"evidence", kText},
                           {"latestStep"},
                           {"longerNs"},
                           {"errorNs"},
                           {"steps"},
                           {"lateSteps"},
                           {"lateNs"},
                           {"persistent", kFlag},
                           {"clockErrorNs"},
                           {"causes", kList, kCauseEntry, 8},
                           {"heldUp", kObject, kHeldUp}};
constexpr Field kLateEntry[] = {{"", kObject, kLate}};
constexpr Field kCall[] = {
    {"communicator", kText},  {"name", kText}, {"calls"}, {"undecided"}, {"waitedNs"},
    {"mostOftenLast", kText}, {"timesLast"}};
constexpr Field kCallEntry[] = {{"", kObject, kCall}};
constexpr Field kWait[] = {{"worker", kText}, {"calls"}, {"last"}, {"waitedNs"}, {"madeWaitNs"}};
constexpr Field kWaitEntry[] = {{"", kObject, kWait}};
constexpr Field kAdvice[] = {{"share"},       {"what", kText},   {"next", kText},
                             {"link", kText}, {"worker", kText}, {"step"}};
constexpr Field kAdviceEntry[] = {{"", kObject, kAdvice}};
constexpr Field kGroup[] = {{"kind", kText}, {"named", kFlag}, {"communicators"},
                            {"calls"},       {"inCallsNs"},    {"waitedNs"}};
constexpr Field kGroupEntry[] = {{"", kObject, kGroup}};
constexpr Field kStage[] = {{"stage"}, {"workers"}, {"ownNs"}};
constexpr Field kStageEntry[] = {{"", kObject, kStage}};
constexpr Field kTextEntry[] = {{"", kText}};
constexpr Field kNumberEntry[] = {{""}};
constexpr Field kRowEntry[] = {{"", kList, kNumberEntry, kMaxMapEntries}};
constexpr Field kMap[] = {{"workers", kList, kTextEntry, kMaxMapEntries},
                          {"steps", kList, kNumberEntry, kMaxMapEntries},
                          {"waitedNs", kList, kRowEntry, kMaxMapEntries},
                          {"errorNs", kList, kRowEntry, kMaxMapEntries},
                          {"workersLeftOut"},
                          {"stepsLeftOut"}};
constexpr Field kStragglers[] = {{"workers"},
                                 {"steps"},
                                 {"stepNs"},
                                 {"heldUp", kObject, kHeldUp},
                                 {"stragglers", kList, kLateEntry, kShownLate},
                                 {"notDecided", kList, kLateEntry, kShownLate},
                                 {"late"},
                                 {"smallestToldNs"},
                                 {"slowdown"},
                                 {"likely", kFlag},
                                 {"advice", kList, kAdviceEntry, kShownAdvice},
                                 {"groups", kList, kGroupEntry, kShownGroups},
                                 {"stages", kList, kStageEntry, kShownStages},
                                 {"collectives", kList, kCallEntry, kShownCalls},
                                 {"waits", kList, kWaitEntry, kMaxReportRows},
                                 {"waitMap", kObject, kMap},
                                 {"unknown", kList, kTextEntry, kShownSentences}};
constexpr Field kFigures[] = {{"stepSeconds"}, {"stragglerSeconds"}, {"exposedCommunicationRatio"}};
constexpr Field kStep[] = {{"number"}, {"workers"}, {"meanNs"}, {"mostOwnTime", kText}, {"ownNs"}};
constexpr Field kStepEntry[] = {{"", kObject, kStep}};
constexpr Field kOp[] = {{"name", kText}, {"kind", kText}, {"count"}, {"selfNs"}, {"workers"}};
constexpr Field kOpEntry[] = {{"", kObject, kOp}};
constexpr Field kTime[] = {{"spanNs"},          {"computeNs"}, {"exposedCommunicationNs"},
                           {"exposedCopiesNs"}, {"idleNs"},    {"communicationNs"}};
constexpr Field kHostTime[] = {{"inputStallNs"}, {"garbageCollectionNs"}, {"hostBoundNs"}};
constexpr Field kWorker[] = {{"worker", kText},
                             {"rank"},
                             {"clockErrorNs"},
                             {"steps"},
                             {"hostDevice", kFlag},
                             {"time", kObject, kTime},
                             {"hostTime", kObject, kHostTime}};
constexpr Field kWorkerEntry[] = {{"", kObject, kWorker}};
constexpr Field kMissing[] = {{"worker", kText}, {"why", kText}};
constexpr Field kMissingEntry[] = {{"", kObject, kMissing}};
constexpr Field kBatch[] = {{"phase", kText}, {"unit", kText}, {"least"},   {"most"},
                            {"iterations"},   {"tokens"},      {"totalNs"}, {"p50Ns"},
                            {"p99Ns"},        {"maxNs"},       {"share"}};
constexpr Field kBatchEntry[] = {{"", kObject, kBatch}};
constexpr Field kGap[] = {{"reason", kText}, {"gaps"}, {"totalNs"}, {"maxNs"}, {"share"}};
constexpr Field kGapEntry[] = {{"", kObject, kGap}};
constexpr Field kEngine[] = {{"sizes", kList, kBatchEntry, kShownBatches},
                             {"gaps", kList, kGapEntry, kShownBatches}};
constexpr Field kReport[] = {{"captureId", kText},
                             {"run", kText},
                             {"headline", kText},
                             {"figures", kObject, kFigures},
                             {"engine", kObject, kEngine},
                             {"stragglers", kObject, kStragglers},
                             {"steps", kList, kStepEntry, kShownSteps},
                             {"ops", kList, kOpEntry, kMaxReportRows},
                             {"workers", kList, kWorkerEntry, kMaxReportRows},
                             {"workersLeftOut"},
                             {"missing", kList, kMissingEntry, kShownMissing},
                             {"missingWorkers"}};

// What each report of a run with several roles has beside the fields above.
constexpr Field kRole[] = {{"role", kText}, {"group", kText}};

double NumberOr(const Json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Every worker has a row with a cell for each step.
absl::Status CheckWaitMap(const Json& map) {
  if (map.is_null()) return absl::OkStatus();
  for (const char* key : {"workers", "steps", "waitedNs", "errorNs"})
    if (!map[key].is_array()) return WrongType("stragglers.waitMap", "complete");
  for (const char* key : {"waitedNs", "errorNs"}) {
    const Json& rows = map[key];
    const bool fits = rows.size() == map["workers"].size() &&
                      std::all_of(rows.begin(), rows.end(), [&](const Json& row) {
                        return row.size() == map["steps"].size();
                      });
    if (!fits) return WrongType(StrCat("stragglers.waitMap.", key), "one row per worker");
  }
  return absl::OkStatus();
}

// Adds to each worker what is known of its waits.
void JoinWaits(const Json& waits, Json& workers) {
  std::map<std::string, const Json*> of_worker;
  if (waits.is_array())
    for (const Json& wait : waits) of_worker.try_emplace(TextOf(wait, "worker"), &wait);
  for (Json& worker : workers) {
    const auto found = of_worker.find(TextOf(worker, "worker"));
    for (const char* key : {"calls", "last", "waitedNs", "madeWaitNs"})
      worker[key] = found == of_worker.end() ? Json() : (*found->second)[key];
  }
}

// Keeps the workers that others lost most time by.
void KeepShownWorkers(const Json& stragglers, Json& report) {
  Json& workers = report["workers"];
  if (workers.size() <= kShownWorkers) return;
  std::set<std::string> named;
  for (const char* list : {"stragglers", "notDecided"}) {
    if (!stragglers.is_object() || !stragglers[list].is_array()) continue;
    for (const Json& late : stragglers[list]) named.insert(TextOf(late, "worker"));
  }
  std::vector<std::size_t> order(workers.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto loss = [&](std::size_t i) {
    return std::pair(named.contains(TextOf(workers[i], "worker")),
                     NumberOr(workers[i], "madeWaitNs", 0));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return loss(a) > loss(b); });
  order.resize(kShownWorkers);
  std::sort(order.begin(), order.end());
  Json shown = Json::array();
  for (const std::size_t i : order) shown.push_back(std::move(workers[i]));
  report["workersMore"] =
      NumberOr(report, "workersMore", 0) + static_cast<double>(workers.size() - kShownWorkers);
  workers = std::move(shown);
}

// Keeps the operations with the most time: those of devices if there are any, as `strobe report`
// does, which `opsOfDevices` tells. What waits on the host would stand before all of them.
void KeepShownOps(Json& report) {
  Json& ops = report["ops"];
  const auto of_host = [](const Json& op) {
    const std::string kind = TextOf(op, "kind");
    return kind != "compute" && kind != "communication" && kind != "copy";
  };
  double left = NumberOr(report, "opsMore", 0);
  const bool of_devices = !std::all_of(ops.begin(), ops.end(), of_host);
  report["opsOfDevices"] = of_devices;
  if (of_devices) ops.erase(std::remove_if(ops.begin(), ops.end(), of_host), ops.end());
  if (ops.size() > kShownOps) {
    left += static_cast<double>(ops.size() - kShownOps);
    ops.erase(ops.begin() + kShownOps, ops.end());
  }
  if (left > 0) report["opsMore"] = left;
}

// The report of workers that are compared with one another.
absl::StatusOr<Json> ReadOneReport(const Json& json, const std::string& place) {
  ASSIGN_OR_RETURN(Json report, ReadFields(json, kReport, place));
  for (const char* list : {"steps", "ops", "workers", "missing"})
    if (report[list].is_null()) report[list] = Json::array();
  Json& stragglers = report["stragglers"];
  if (!stragglers.is_null()) {
    RETURN_IF_ERROR(CheckWaitMap(stragglers["waitMap"]));
    JoinWaits(stragglers["waits"], report["workers"]);
    stragglers.erase("waits");
    stragglers.erase("waitsMore");
  }
  KeepShownOps(report);
  report["workersMore"] = NumberOr(report, "workersMore", 0) + NumberOr(json, "workersLeftOut", 0);
  KeepShownWorkers(stragglers, report);
  return report;
}

// The reports of the roles, if the run has several.
absl::Status ReadRoles(const Json& json, Json& report) {
  const auto roles = json.find("roles");
  if (roles == json.end() || roles->is_null()) return absl::OkStatus();
  if (!roles->is_array()) return WrongType("report.roles", "a list");
  Json& list = report["roles"] = Json::array();
  for (std::size_t i = 0; i < std::min(roles->size(), kMaxRoles); ++i) {
    const std::string place = StrCat("report.roles[", i, "]");
    ASSIGN_OR_RETURN(Json entry, ReadOneReport((*roles)[i], place));
    ASSIGN_OR_RETURN(const Json names, ReadFields((*roles)[i], kRole, place));
    entry.update(names);
    list.push_back(std::move(entry));
  }
  return absl::OkStatus();
}

using VerdictJson = nlohmann::ordered_json;

constexpr std::size_t kMaxEvidenceDepth = 6;  // The frame of a stack needs five levels.
constexpr std::size_t kMaxVerdictBytes = 16 << 10;
constexpr std::size_t kMaxEvidenceWorkers = 20'000;

constexpr Field kRankEntry[] = {{""}};
constexpr Field kFrameFields[] = {{"file", kText}, {"line"}, {"name", kText}};
constexpr Field kFrameEntry[] = {{"", kObject, kFrameFields}};
constexpr Field kStackFields[] = {{"ranks", kList, kRankEntry, kShownRanks},
                                  {"thread", kText},
                                  {"keepGil", kList, kRankEntry, kShownRanks},
                                  {"moved", kList, kRankEntry, kShownRanks},
                                  {"frames", kList, kFrameEntry, kShownFrames}};
constexpr Field kStackEntry[] = {{"", kObject, kStackFields}};
constexpr Field kVerdictFields[] = {
    {"class", kText}, {"confidence", kText}, {"text", kText, {}, kMaxVerdictBytes}};
constexpr Field kAskedWorker[] = {{"name", kText}, {"missing", kText}};
constexpr Field kAskedWorkerEntry[] = {{"", kObject, kAskedWorker}};
constexpr Field kEvidenceFields[] = {{"format"},
                                     {"verdict", kObject, kVerdictFields},
                                     {"stacks", kList, kStackEntry, kShownStacks},
                                     {"workers", kList, kAskedWorkerEntry, kMaxEvidenceWorkers}};

// The workers of which there is no evidence.
void AddMissing(const VerdictJson& workers, VerdictJson& page) {
  VerdictJson& missing = page["missing"] = VerdictJson::array();
  std::size_t more = 0;
  for (const VerdictJson& worker : workers) {
    if (worker["missing"].is_null()) continue;
    if (missing.size() == kShownSilent)
      ++more;
    else
      missing.push_back({{"worker", worker["name"]}, {"why", worker["missing"]}});
  }
  if (more > 0) page["missingMore"] = more;
}

}  // namespace

absl::StatusOr<Json> ReadReport(std::string_view text) {
  if (text.size() > kMaxReportRead)
    return absl::InvalidArgumentError(
        StrCat("it has ", text.size(), " bytes, more than any report"));
  // Deeper values are dropped where they begin, so that they take no memory.
  const Json json = ReadJson<Json>(text, {.max_depth = kMaxReportDepth});
  if (!json.is_object()) return absl::InvalidArgumentError("it is no JSON object");
  const double format = NumberOr(json, "format", 0);
  if (format != kReportFormat)
    return absl::InvalidArgumentError("its format is not one that this viewer knows");
  ASSIGN_OR_RETURN(Json report, ReadOneReport(json, "report"));
  RETURN_IF_ERROR(ReadRoles(json, report));
  return report;
}

bool ComparesWorkers(const Json& report) {
  const auto roles = report.find("roles");
  if (roles != report.end()) return std::any_of(roles->begin(), roles->end(), &ComparesWorkers);
  const auto engine = report.find("engine");
  if (engine != report.end() && engine->is_object()) return true;
  const auto stragglers = report.find("stragglers");
  return stragglers != report.end() && stragglers->is_object() &&
         NumberOr(*stragglers, "workers", 0) > 1 && NumberOr(*stragglers, "steps", 0) > 0;
}

absl::StatusOr<VerdictJson> ReadVerdict(std::string_view text) {
  if (text.size() > kMaxEvidenceRead)
    return absl::InvalidArgumentError(StrCat("it has ", text.size(), " bytes, more than any"));
  const auto json = ReadJson<VerdictJson>(text, {.max_depth = kMaxEvidenceDepth});
  ASSIGN_OR_RETURN(VerdictJson read, ReadFields(json, kEvidenceFields, "evidence"));
  if (read["format"] != 1)
    return absl::InvalidArgumentError("its format is not one that this viewer knows");
  VerdictJson page = NoVerdict("");
  if (const VerdictJson& verdict = read["verdict"]; verdict.is_object()) {
    page["class"] = verdict["class"];
    page["confidence"] = verdict["confidence"];
    if (verdict["text"].is_string()) {
      std::vector<std::string> lines = Split(verdict["text"].get_ref<const std::string&>(), '\n');
      while (lines.size() > 1 && lines.back().empty()) lines.pop_back();
      page["lines"] = lines;
    }
  }
  for (const char* list : {"stacks", "stacksMore"}) {
    if (read.contains(list) && !read[list].is_null()) page[list] = std::move(read[list]);
  }
  AddMissing(read["workers"], page);
  return page;
}

VerdictJson NoVerdict(std::string_view why) {
  return {{"class", nullptr},
          {"confidence", nullptr},
          {"lines", VerdictJson::array({why})},
          {"stacks", VerdictJson::array()},
          {"missing", VerdictJson::array()}};
}

}  // namespace strobe::viewer
