#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cli/base/common_flags.h"
#include "cli/base/open_location.h"
#include "cli/base/open_traces.h"
#include "cli/base/trace_commands.h"
#include "cli/report/report_document.h"
#include "cli/report/report_pages.h"
#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/digest/digest_json.h"
#include "collector/trace/report/digest_operations.h"
#include "collector/trace/report/headline.h"
#include "collector/trace/report/report_json.h"
#include "collector/trace/report/run_comparison.h"
#include "collector/trace/report/run_summary.h"
#include "collector/trace/report/stragglers.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::cli {
namespace {

// JSON lists at most this many operations of a comparison.
constexpr std::size_t kMaxJsonOps = 1000;

absl::StatusOr<digest::Digest> DigestOf(const convert::OpenTrace& trace) {
  RETURN_IF_ERROR(trace.damage);
  std::int64_t zero_ns = 0;
  ASSIGN_OR_RETURN(const xplane::Space space, convert::ReadSpace(trace.bytes(), zero_ns));
  return digest::ComputeDigest(space, trace.worker, nullptr, zero_ns);
}

// Digests the traces, in their order, without those that are damaged, unless all are. A trace is
// read only while it is summed up, so that the memory does not depend on their number.
absl::StatusOr<std::vector<digest::Digest>> DigestAll(const std::vector<convert::OpenTrace>& traces,
                                                      std::vector<convert::LeftOut>& left_out) {
  std::vector<digest::Digest> digests(traces.size());
  std::vector<absl::Status> statuses(traces.size());
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  ParallelFor(traces.size(), threads, [&](std::size_t i) {
    absl::StatusOr<digest::Digest> digest = DigestOf(traces[i]);
    if (digest.ok())
      digests[i] = *std::move(digest);
    else
      statuses[i] = digest.status();
  });
  std::vector<digest::Digest> read;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (statuses[i].ok()) {
      read.push_back(std::move(digests[i]));
    } else if (absl::IsDataLoss(statuses[i])) {
      left_out.push_back({traces[i].worker, MessageOf(statuses[i])});
    } else {
      return absl::Status(statuses[i].code(),
                          ToAbsl(StrCat(traces[i].worker, ": ", MessageOf(statuses[i]))));
    }
  }
  if (read.empty() && !left_out.empty()) return left_out.front().Error();
  return read;
}

// A run whose digests were read and merged. The digests are freed once the report is computed,
// because those of a large run take much memory.
struct MergedRun {
  std::vector<digest::Digest> digests{};
  report::Job job{};
  report::StragglerReport stragglers{};
  std::vector<convert::LeftOut> left_out{};
};

absl::StatusOr<MergedRun> ReadAndMerge(const std::string& place,
                                       const std::string& storage_config) {
  ASSIGN_OR_RETURN(const std::vector<convert::OpenTrace> traces, OpenTraces(place, storage_config));
  MergedRun run;
  absl::StatusOr<std::vector<digest::Digest>> digests = DigestAll(traces, run.left_out);
  RETURN_IF_ERROR(convert::Unchanged(traces, digests.status()));
  Warn(run.left_out);
  run.digests = *std::move(digests);
  report::DigestMerger merger;
  for (const digest::Digest& digest : run.digests) merger.Add(digest);
  run.job = merger.Finish(traces.size());
  run.stragglers = report::FindStragglers(run.job);
  return run;
}

void AddMissing(const std::vector<convert::LeftOut>& left_out, ReportDocument& page) {
  if (left_out.empty()) return;
  DocumentSection section{.heading = "Missing workers", .list = true};
  for (const convert::LeftOut& worker : left_out) section.lines.push_back(worker.Warning());
  page.sections.push_back(std::move(section));
}

// As in report.json.
nlohmann::ordered_json MissingJson(const std::vector<convert::LeftOut>& left_out) {
  nlohmann::ordered_json missing = nlohmann::ordered_json::array();
  for (const convert::LeftOut& worker : left_out)
    missing.push_back({{"worker", worker.worker}, {"why", worker.why}});
  return missing;
}

PageOptions PageOptionsOf(const ReportFlags& flags) {
  return {
      .top = flags.top, .all_workers = flags.output == "table", .pictures = flags.output == "html"};
}

std::string Written(const ReportDocument& page, const std::string& output) {
  if (output == "html") return RenderHtml(page);
  return output == "markdown" ? RenderMarkdown(page) : RenderText(page);
}

std::string Written(const nlohmann::ordered_json& json) { return JsonText(json, 2) + "\n"; }

bool HasSeveralRoles(const MergedRun& run) {
  return std::any_of(run.digests.begin(), run.digests.end(), [&](const digest::Digest& digest) {
    return digest.role != run.digests.front().role;
  });
}

std::string ReportRoles(const ReportFlags& flags, MergedRun run) {
  const DigestsByRole roles = DivideByRole(std::move(run.digests));
  if (flags.output != "json") {
    ReportDocument page = RolesPage(flags.location, roles, PageOptionsOf(flags));
    AddMissing(run.left_out, page);
    return Written(page, flags.output);
  }
  nlohmann::ordered_json json = {{"stragglers", nullptr}, {"roles", RoleStragglersJson(roles)}};
  for (const auto& [role, digests] : roles) {
    for (const digest::Digest& digest : digests) {
      json["workers"].push_back(digest::DigestToJson(digest));
      json["workers"].back()["role"] = role;
    }
  }
  json["missing"] = MissingJson(run.left_out);
  return Written(json);
}

absl::StatusOr<std::string> ReportOne(const ReportFlags& flags) {
  ASSIGN_OR_RETURN(MergedRun run, ReadAndMerge(flags.location, flags.storage_config));
  if (HasSeveralRoles(run)) return ReportRoles(flags, std::move(run));
  if (flags.output != "json") {
    ReportDocument page =
        RunPage(flags.location, run.digests, run.job, run.stragglers, PageOptionsOf(flags));
    AddMissing(run.left_out, page);
    return Written(page, flags.output);
  }
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (const digest::Digest& digest : run.digests) workers.push_back(digest::DigestToJson(digest));
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["stragglers"] = report::StragglersToJson(run.job, run.stragglers);
  json["workers"] = std::move(workers);
  json["missing"] = MissingJson(run.left_out);
  return Written(json);
}

struct SummedUpRun {
  NamedRun named{};
  std::vector<convert::LeftOut> left_out{};
  report::RunSummary summary{};
};

absl::StatusOr<SummedUpRun> SumUp(const std::string& place, const std::string& storage_config) {
  ASSIGN_OR_RETURN(const MergedRun run, ReadAndMerge(place, storage_config));
  return SummedUpRun{
      .named = {.location = place, .headline = report::Headline(run.job, run.stragglers)},
      .left_out = run.left_out,
      .summary = report::SummarizeRun(run.digests)};
}

absl::StatusOr<std::string> ReportTwo(const ReportFlags& flags) {
  ASSIGN_OR_RETURN(const SummedUpRun before, SumUp(flags.location, flags.storage_config));
  ASSIGN_OR_RETURN(const SummedUpRun after, SumUp(flags.other, flags.storage_config));
  const report::RunComparison comparison = report::CompareRuns(before.summary, after.summary);
  if (flags.output != "json") {
    ReportDocument page =
        ComparisonPage(before.named, after.named, comparison, PageOptionsOf(flags));
    AddMissing(before.left_out, page);
    AddMissing(after.left_out, page);
    return Written(page, flags.output);
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  nlohmann::ordered_json& told = json["comparison"] =
      report::ComparisonToJson(comparison, kMaxJsonOps);
  for (const auto& [key, run] : {std::pair("before", &before), std::pair("after", &after)}) {
    told[key]["place"] = run->named.location;
    told[key]["stragglers"] = run->named.headline;
    told[key]["missing"] = MissingJson(run->left_out);
  }
  return Written(json);
}

}  // namespace

void AddReportFlags(CLI::App& command, ReportFlags& flags) {
  AddPlaceArgument(command, flags.location);
  command.add_option("other", flags.other, "show what changed from the first one to this one");
  command.add_option("--top", flags.top, "how many operations to show")->capture_default_str();
  AddOutputFlag(command, flags.output,
                "; json has each step, collective and operation, html is a page with pictures",
                {"table", "json", "markdown", "html"});
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "Of each worker, it shows how long its steps took, and for how much of that time its devices "
      "computed, only communicated or copied, or idled. Of two runs, it shows what changed by more "
      "than chance explains.\n"
      "Examples:\n"
      "  strobe report /nfs/logs\n"
      "  strobe report gs://bucket/logs/plugins/profile/RUN --top 30\n"
      "  strobe report RUN --output html > report.html\n"
      "  strobe report YESTERDAY TODAY --output markdown | gh issue comment 12 --body-file -\n"
      "  strobe report YESTERDAY TODAY --output json | jq -r .comparison.headline\n"
      "Exit code: 0 shown, 1 the traces cannot be read, 2 a flag is wrong.");
}

int RunReport(const ReportFlags& flags) {
  const absl::StatusOr<std::string> text =
      flags.other.empty() ? ReportOne(flags) : ReportTwo(flags);
  if (!text.ok()) return Complain(text.status());
  std::cout << *text;
  return kExitOk;
}

}  // namespace strobe::cli
