#include "cli/base/process_table.h"

#include <algorithm>
#include <limits>

#include "cli/base/report_table.h"
#include "collector/trace/xplane/names.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/message_json.h"

namespace strobe::cli {
namespace {

std::string_view OutcomeName(const v1::ProcessReport& process) {
  return Name(static_cast<Outcome>(process.outcome()));
}

std::string_view SourceName(const v1::ProcessReport& process) {
  if (process.source() == v1::SOURCE_FRAMEWORK) return "framework";
  return process.source() == v1::SOURCE_AGENT ? "agent" : "-";
}

std::string MessageAndNote(const v1::ProcessReport& process) {
  const bool both = !process.message().empty() && !process.note().empty();
  return StrCat(process.message(), both ? "; " : "", process.note());
}

std::int64_t FirstStart(const Processes& processes) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const v1::ProcessReport& process : processes.rows) {
    if (process.started_ns() != 0) first = std::min(first, process.started_ns());
  }
  return first;
}

}  // namespace

absl::StatusOr<Processes> ProcessesOf(const xplane::Space& space) {
  Processes processes;
  const xplane::Plane* plane = space.Find(xplane::kStrobePlane);
  if (plane == nullptr) return processes;
  bool readable = true;
  RETURN_IF_ERROR(plane->ForEachStat([&](const xplane::Stat& stat) {
    const std::string_view name = plane->NameOf(stat);
    if (name == xplane::kProcessesLeftOut)
      processes.left_out = static_cast<std::uint64_t>(stat.Integer().value_or(0));
    const auto* text = std::get_if<std::string_view>(&stat.value);
    if (name != xplane::kProcess || text == nullptr) return;
    v1::ProcessReport row;
    readable = readable && ReadJson(*text, row);
    processes.rows.push_back(std::move(row));
  }));
  if (!readable) return absl::DataLossError("the trace's list of processes cannot be read");
  return processes;
}

bool WorthShowing(const Processes& processes, Outcome worker) {
  return processes.rows.size() > 1 ||
         std::any_of(processes.rows.begin(), processes.rows.end(), [&](const auto& process) {
           return static_cast<Outcome>(process.outcome()) != worker;
         });
}

bool SaidMore(const Processes& processes) {
  return std::any_of(processes.rows.begin(), processes.rows.end(), [](const auto& process) {
    return !process.note().empty() || process.stop_took_ns() > 0;
  });
}

std::string ProcessTable(const Processes& processes) {
  const std::int64_t first = FirstStart(processes);
  std::vector<Row> rows = {{"PROCESS", "SOURCE", "OUTCOME", "BEGAN AFTER", "RECORDED", "STOPPED IN",
                            "EVENTS", "DROPPED", "MESSAGE"}};
  for (const v1::ProcessReport& process : processes.rows) {
    const bool recorded = process.started_ns() != 0;
    const std::int64_t length = process.stopped_ns() - process.started_ns();
    rows.push_back(
        {process.name(), std::string(SourceName(process)), std::string(OutcomeName(process)),
         recorded ? FormatDuration(Nanos{process.started_ns() - first}) : "-",
         recorded && length > 0 ? FormatDuration(Nanos{length}) : "-",
         process.stop_took_ns() > 0 ? FormatDuration(Nanos{process.stop_took_ns()}) : "-",
         StrCat(process.events()), StrCat(process.dropped()), MessageAndNote(process)});
  }
  std::string text = AlignRows(rows);
  if (processes.left_out > 0) text += StrCat("... ", processes.left_out, " more processes\n");
  return text;
}

nlohmann::ordered_json ProcessesJson(const Processes& processes) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const v1::ProcessReport& process : processes.rows) {
    list.push_back({{"name", process.name()},
                    {"source", SourceName(process)},
                    {"outcome", OutcomeName(process)},
                    {"message", process.message()},
                    {"startedNs", process.started_ns()},
                    {"stoppedNs", process.stopped_ns()},
                    {"stopTookNs", process.stop_took_ns()},
                    {"note", process.note()},
                    {"original", process.original()},
                    {"events", process.events()},
                    {"dropped", process.dropped()}});
  }
  return list;
}

}  // namespace strobe::cli
