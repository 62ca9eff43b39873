#include "viewer/report/stored_report.h"

#include <utility>

#include "common/base/strings.h"
#include "viewer/report/report_page.h"

namespace strobe::viewer {

StoredReport ReadStoredReport(Library& library, const std::string& run) {
  const auto problem = [](const absl::Status& status) {
    return StoredReport{.problem = StrCat("report.json cannot be shown: ", MessageOf(status))};
  };
  const absl::StatusOr<StoredRun> stored = library.Store(run);
  if (absl::IsNotFound(stored.status())) return {};
  if (!stored.ok()) return problem(stored.status());
  const absl::StatusOr<std::string> text =
      GetText(*stored->store, ReportKey(stored->run), kMaxReportRead);
  if (absl::IsNotFound(text.status())) return {};
  if (!text.ok()) return problem(text.status());
  absl::StatusOr<nlohmann::ordered_json> report = ReadReport(*text);
  if (!report.ok()) return problem(report.status());
  return {.report = *std::move(report)};
}

}  // namespace strobe::viewer
