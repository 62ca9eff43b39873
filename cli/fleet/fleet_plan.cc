#include "cli/fleet/fleet_plan.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "cli/base/report_table.h"
#include "common/base/enum_names.h"
#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

using Json = nlohmann::ordered_json;

// The version of the row and of the tables. Runs of another version are converted again.
constexpr int kFleetVersion = 1;
constexpr std::size_t kMaxProblemBytes = 1000;
constexpr std::array<std::string_view, 6> kFolders = {"events",      "stats",   "steps",
                                                      "collectives", "workers", "reports"};
constexpr std::array<FleetState, 3> kStates = {FleetState::kDone, FleetState::kEmpty,
                                               FleetState::kFailed};

std::string PartitionOf(std::string_view run) { return StrCat("run=", UrlEncode(run), "/"); }

std::string SecondsText(double seconds) { return absl::StrFormat("%.1f s", seconds); }

}  // namespace

bool IsFleetTrace(const storage::StoredObject& object) {
  return storage::IsSpaceName(object.name()) || storage::IsTraceJsonName(object.name());
}

bool IsHopeless(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
}

bool IsOfShare(const FleetShare& share, std::string_view run) {
  return Fnv1a(run) % share.of == share.index;
}

std::string FleetIdentity(std::vector<storage::StoredObject> objects, bool stats) {
  std::erase_if(objects, [](const storage::StoredObject& object) { return !IsFleetTrace(object); });
  std::sort(
      objects.begin(), objects.end(),
      [](const storage::StoredObject& a, const storage::StoredObject& b) { return a.key < b.key; });
  Sha256 identity;
  identity.Update(StrCat(kFleetVersion, stats ? " stats" : "", "\n"));
  for (const storage::StoredObject& object : objects)
    identity.Update(StrCat(object.key, "\n", object.bytes, " ", object.version, "\n"));
  return identity.Hex();
}

std::string_view NameOf(FleetState state) {
  static constexpr EnumNames<FleetState, 3> kNames({{FleetState::kDone, "done"},
                                                    {FleetState::kEmpty, "empty"},
                                                    {FleetState::kFailed, "failed"}});
  return kNames.Of(state, "?");
}

std::string FleetRunJson(const FleetRun& run) {
  const Json json = {{"version", kFleetVersion},
                     {"run", run.run},
                     {"state", NameOf(run.state)},
                     {"identity", run.identity},
                     {"workers", run.workers},
                     {"events", run.events},
                     {"trace_bytes", run.trace_bytes},
                     {"table_bytes", run.table_bytes},
                     {"seconds", run.seconds},
                     {"headline", run.headline},
                     {"problem", CutUtf8(run.problem, kMaxProblemBytes)}};
  return JsonText(json) + "\n";
}

absl::StatusOr<FleetRun> ReadFleetRun(std::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError("this is not a row of the table runs");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("version", Json()) != kFleetVersion) return wrong;
  FleetRun run;
  const auto text_of = [&](const char* name, std::string& to) {
    const auto member = json.find(name);
    if (member == json.end() || !member->is_string()) return false;
    to = member->get<std::string>();
    return true;
  };
  const auto number_of = [&](const char* name, auto& to) {
    const auto member = json.find(name);
    if (member == json.end() || !member->is_number()) return false;
    to = member->get<std::remove_reference_t<decltype(to)>>();
    return true;
  };
  std::string state;
  if (!text_of("run", run.run) || !text_of("identity", run.identity) || !text_of("state", state) ||
      !text_of("headline", run.headline) || !text_of("problem", run.problem) ||
      !number_of("workers", run.workers) || !number_of("events", run.events) ||
      !number_of("trace_bytes", run.trace_bytes) || !number_of("table_bytes", run.table_bytes) ||
      !number_of("seconds", run.seconds))
    return wrong;
  for (const FleetState known : kStates) {
    run.state = known;
    if (NameOf(known) == state) return run;
  }
  return wrong;
}

std::string FleetRowKey(std::string_view run) {
  return StrCat("runs/", PartitionOf(run), "run.json");
}

std::string FleetReportKey(std::string_view run) {
  return StrCat("reports/", PartitionOf(run), "report.json");
}

std::vector<std::string> FleetPrefixes(std::string_view run) {
  std::vector<std::string> prefixes;
  for (const std::string_view folder : kFolders)
    prefixes.push_back(StrCat(folder, "/", PartitionOf(run)));
  return prefixes;
}

std::string FleetRunText(const FleetRun& run) {
  if (run.state == FleetState::kEmpty) return "it has no traces";
  if (run.state == FleetState::kFailed) return StrCat("failed: ", run.problem);
  return StrCat(run.workers, run.workers == 1 ? " worker, " : " workers, ", run.events, " events, ",
                FormatBytes(run.trace_bytes), " of traces, ", FormatBytes(run.table_bytes),
                " of tables, ", SecondsText(run.seconds),
                run.headline.empty() ? "" : StrCat(": ", run.headline));
}

std::string FleetSummary(const std::vector<FleetRun>& runs, std::size_t done_before) {
  std::array<std::size_t, kStates.size()> counts{};
  std::vector<Row> failed = {{"FAILED RUN", "WHY"}};
  std::uint64_t bytes = 0;
  for (const FleetRun& run : runs) {
    ++counts[static_cast<std::size_t>(run.state)];
    if (run.state == FleetState::kDone) bytes += run.trace_bytes;
    if (run.state == FleetState::kFailed)
      failed.push_back({WithoutControls(run.run), WithoutControls(run.problem)});
  }
  const auto count = [&](FleetState state) { return counts[static_cast<std::size_t>(state)]; };
  std::string text = StrCat("written: ", count(FleetState::kDone), " (", FormatBytes(bytes),
                            " of traces), done before: ", done_before,
                            ", without traces: ", count(FleetState::kEmpty),
                            ", failed: ", count(FleetState::kFailed), "\n");
  if (failed.size() > 1) text += StrCat("\n", AlignRows(failed));
  return text;
}

}  // namespace strobe::cli
