#include "viewer/report/evidence_page.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json_reader.h"
#include "viewer/report/checked_fields.h"

namespace strobe::viewer {
namespace {

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
