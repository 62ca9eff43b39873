#include "viewer/report/stored_report.h"

#include <utility>

#include "common/base/strings.h"
#include "viewer/report/evidence_page.h"
#include "viewer/report/report_page.h"

namespace strobe::viewer {
namespace {

// Null if the run has none.
nlohmann::ordered_json ReadStoredVerdict(const StoredRun& stored) {
  const absl::StatusOr<std::string> text =
      storage::GetText(*stored.store, storage::EvidenceKey(stored.run), kMaxEvidenceRead);
  if (absl::IsNotFound(text.status())) return nullptr;
  absl::StatusOr<nlohmann::ordered_json> verdict =
      text.ok() ? ReadVerdict(*text) : absl::StatusOr<nlohmann::ordered_json>(text.status());
  if (verdict.ok()) return *std::move(verdict);
  return NoVerdict(StrCat("evidence.json cannot be shown: ", MessageOf(verdict.status())));
}

}  // namespace

StoredReport ReadStoredReport(Library& library, const std::string& run) {
  const auto problem = [](const absl::Status& status) {
    return StoredReport{.problem = StrCat("report.json cannot be shown: ", MessageOf(status))};
  };
  const absl::StatusOr<StoredRun> stored = library.Store(run);
  if (absl::IsNotFound(stored.status())) return {};
  if (!stored.ok()) return problem(stored.status());
  const absl::StatusOr<std::string> text =
      storage::GetText(*stored->store, storage::ReportKey(stored->run), kMaxReportRead);
  if (absl::IsNotFound(text.status())) return {.evidence = ReadStoredVerdict(*stored)};
  if (!text.ok()) return problem(text.status());
  absl::StatusOr<nlohmann::ordered_json> report = ReadReport(*text);
  if (!report.ok()) return problem(report.status());
  return {.report = *std::move(report)};
}

}  // namespace strobe::viewer
