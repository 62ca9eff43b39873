#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/common_flags.h"
#include "cli/digest_table.h"
#include "cli/open_place.h"
#include "cli/open_traces.h"
#include "cli/straggler_table.h"
#include "cli/trace_commands.h"
#include "collector/digest/compute_digest.h"
#include "collector/digest/digest_json.h"
#include "collector/report/digest_operations.h"
#include "collector/report/straggler_json.h"
#include "collector/report/stragglers.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

absl::StatusOr<Digest> DigestOf(const convert::OpenTrace& trace) {
  ASSIGN_OR_RETURN(const xplane::Space space, convert::ReadSpace(trace.bytes()));
  return ComputeDigest(space, trace.worker);
}

// In the order of the traces. A trace is read only while it is summed up, so that the memory does
// not depend on their number.
absl::StatusOr<std::vector<Digest>> DigestAll(const std::vector<convert::OpenTrace>& traces) {
  std::vector<Digest> digests(traces.size());
  std::vector<absl::Status> statuses(traces.size());
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  ParallelFor(traces.size(), threads, [&](std::size_t i) {
    absl::StatusOr<Digest> digest = DigestOf(traces[i]);
    if (digest.ok())
      digests[i] = *std::move(digest);
    else
      statuses[i] =
          absl::Status(digest.status().code(),
                       ToAbsl(StrCat(traces[i].worker, ": ", MessageOf(digest.status()))));
  });
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return digests;
}

}  // namespace

void AddReportFlags(CLI::App& command, ReportFlags& flags) {
  command
      .add_option(
          "place", flags.place,
          "a .xplane.pb file, a trace in Chrome's format (.json, .json.gz), a run, or a logdir "
          "(then its newest run)")
      ->required();
  command.add_option("--top", flags.top, "how many operations to show; 0 = none")
      ->capture_default_str();
  AddOutputFlag(command, flags.output, " with each step, collective and operation");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "Tells which workers hold up the others, by how much and why, and for each worker how long "
      "its steps took, and which part of that its devices computed, communicated or copied without "
      "computing, or idled.\n"
      "Examples:\n"
      "  strobe report /nfs/logs\n"
      "  strobe report gs://bucket/logs/plugins/profile/RUN --top 30\n"
      "  strobe report RUN --output json | jq '.workers[] | {worker, time}'\n"
      "Exit code: 0 shown, 1 the traces cannot be read, 2 a flag is wrong.");
}

int RunReport(const ReportFlags& flags) {
  const absl::StatusOr<std::vector<convert::OpenTrace>> traces =
      OpenTraces(flags.place, flags.storage_config);
  if (!traces.ok()) return Complain(traces.status());
  const absl::StatusOr<std::vector<Digest>> digests = DigestAll(*traces);
  if (const absl::Status status = convert::Unchanged(*traces, digests.status()); !status.ok())
    return Complain(status);
  report::DigestMerger merger;
  for (const Digest& digest : *digests) merger.Add(digest);
  const report::Job job = merger.Finish();
  const report::StragglerReport stragglers = report::FindStragglers(job);
  if (flags.output == "json") {
    nlohmann::ordered_json workers = nlohmann::ordered_json::array();
    for (const Digest& digest : *digests) workers.push_back(DigestToJson(digest));
    const nlohmann::ordered_json all = {{"stragglers", StragglersToJson(job, stragglers)},
                                        {"workers", std::move(workers)}};
    std::cout << all.dump(2) << "\n";
  } else {
    std::cout << RenderStragglers(job, stragglers) << "\n" << RenderDigests(*digests, flags.top);
  }
  return kExitOk;
}

}  // namespace strobe
