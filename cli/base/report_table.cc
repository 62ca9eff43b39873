#include "cli/base/report_table.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/process_table.h"
#include "collector/store/logdir.h"
#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::cli {

std::string FormatWithError(Nanos value, const std::optional<Nanos>& error) {
  return error ? StrCat(FormatDuration(value), " +-", FormatDuration(*error))
               : std::string("not measured");
}

std::string AlignRows(std::vector<Row> rows) {
  std::vector<std::size_t> widths;
  for (Row& row : rows) {
    for (std::string& cell : row) cell = WithoutControls(cell);
  }
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 3, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string FormatBytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return StrCat(absl::StrFormat("%.3g", value), " ", kUnits[unit]);
}

std::string RenderTable(const capture::Spec& spec, const capture::AttemptResult& result) {
  std::vector<Row> rows = {kWorkerHeading};
  for (const capture::WorkerResult& worker : result.workers) {
    const std::optional<Nanos> lateness = capture::LatenessOf(worker);
    const std::string& name = worker.target.name;
    rows.push_back({spec.roles.empty() ? name : StrCat(worker.target.role, " ", name),
                    std::string(Name(worker.outcome)), lateness ? FormatDuration(*lateness) : "-",
                    worker.armed ? FormatWithError(worker.offset, worker.error) : "-",
                    worker.report.url().empty() ? "-" : StrCat(worker.report.events()),
                    worker.report.url().empty() ? "-" : FormatBytes(worker.report.bytes()),
                    worker.message});
  }
  std::string text = AlignRows(rows);
  for (const capture::WorkerResult& worker : result.workers) {
    const Processes processes = ProcessesOf(worker.report);
    if (WorthShowing(processes, worker.outcome))
      text += StrCat("\nprocesses of ", worker.target.name, "\n", ProcessTable(processes), "\n");
  }
  if (result.skew && result.workers.size() > 1)
    text += StrCat("skew: ", FormatWithError(result.skew->achieved, result.skew->error),
                   result.skew->error ? ""
                                      : StrCat(" (", FormatDuration(result.skew->achieved),
                                               " if all clocks agree)"),
                   "\n");
  for (const capture::RoleResult& role : result.roles) {
    text += StrCat(role.role, ": ", role.ok, " of ", role.pods, " Ok",
                   role.skew && role.pods > 1
                       ? StrCat(", skew ", FormatWithError(role.skew->achieved, role.skew->error))
                       : std::string(),
                   "\n");
  }
  if (result.steps)
    text += StrCat("complete on all workers: ", capture::Describe(*result.steps), "\n");
  text +=
      StrCat("synchronized: ", result.synchronized ? "yes" : "no", ", ", result.sync_message, "\n");
  for (const capture::WorkerResult* worker : capture::WorstFirst(result)) {
    text += StrCat(worker->target.name, ": ", Describe(worker->outcome).remedy, "\n");
  }
  if (!result.report.headline.empty()) text += StrCat("report: ", result.report.headline, "\n");
  if (result.bytes > 0) {
    const absl::StatusOr<storage::Logdir> logdir = storage::Logdir::Parse(spec.logdir);
    text += StrCat("run: ", logdir.ok() ? logdir->RunUrl(result.run) : result.run, "\n");
    if (logdir.ok() && logdir->scheme() == "file") {
      text += StrCat("open it: strobe view ", logdir->path(), "   or xprof --logdir ",
                     logdir->path(), "\n");
    } else if (logdir.ok()) {
      text += StrCat("open it: strobe view ", logdir->url(), "\n");
    }
  }
  if (!result.manifest_error.empty())
    text += StrCat("the manifest could not be written: ", result.manifest_error, "\n");
  return text;
}

}  // namespace strobe::cli
