#include "collector/trace/table/run_tables.h"

#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/table/collective_table.h"
#include "collector/trace/table/event_table.h"
#include "collector/trace/table/small_tables.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"

namespace strobe::table {
namespace {

// Files are written piece by piece, so that this is where the work can end.
ParquetFile::Sink SinkOf(TableOutput& output, const TableOptions& options) {
  return [&output, stop = options.stop](std::string_view piece) -> absl::Status {
    if (stop != nullptr && stop->cancelled()) return absl::CancelledError("interrupted");
    return output.Write(piece);
  };
}

absl::Status WriteEvents(const convert::WorkerTrace& trace, std::int64_t zero_ns,
                         const TableOptions& options, const OpenOutput& open) {
  std::unique_ptr<TableOutput> stats_output;
  std::unique_ptr<StatTable> stats;
  if (options.stats) {
    ASSIGN_OR_RETURN(stats_output, open("stats", trace.worker));
    ASSIGN_OR_RETURN(stats, StatTable::Create(SinkOf(*stats_output, options)));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<TableOutput> output, open("events", trace.worker));
  ASSIGN_OR_RETURN(const std::unique_ptr<EventTable> events,
                   EventTable::Create(SinkOf(*output, options), stats.get()));
  RETURN_IF_ERROR(events->AddTrace(trace, zero_ns));
  RETURN_IF_ERROR(events->Finish());
  if (stats != nullptr) {
    RETURN_IF_ERROR(stats->Finish());
    RETURN_IF_ERROR(stats_output->Finish());
  }
  return output->Finish();
}

absl::Status WriteCollectives(const convert::WorkerTrace& trace, std::int64_t zero_ns,
                              const TableOptions& options, const OpenOutput& open,
                              CollectiveCount& count) {
  Digest digest{.worker = trace.worker};
  if (options.digested || MayHaveCollectives(trace.space)) {
    ASSIGN_OR_RETURN(digest, ComputeDigest(trace.space, trace.worker, options.stop, trace.zero_ns));
  }
  if (options.digested) options.digested(digest);
  count = {.rows = digest.collectives.size(), .left_out = digest.cuts.collectives};
  ASSIGN_OR_RETURN(const std::unique_ptr<TableOutput> output, open("collectives", trace.worker));
  RETURN_IF_ERROR(WriteCollectiveTable(digest, AddSaturated(zero_ns, trace.shift_ns),
                                       SinkOf(*output, options)));
  return output->Finish();
}

}  // namespace

absl::Status WriteRunTables(const convert::AlignedTraces& traces, const TableOptions& options,
                            const OpenOutput& open) {
  std::vector<CollectiveCount> collectives;
  for (const convert::WorkerTrace& trace : traces.workers) {
    RETURN_IF_ERROR(WriteEvents(trace, traces.zero_ns, options, open));
    ASSIGN_OR_RETURN(const std::unique_ptr<TableOutput> output, open("steps", trace.worker));
    RETURN_IF_ERROR(WriteStepTable(trace, traces.zero_ns, SinkOf(*output, options)));
    RETURN_IF_ERROR(output->Finish());
    RETURN_IF_ERROR(
        WriteCollectives(trace, traces.zero_ns, options, open, collectives.emplace_back()));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<TableOutput> output, open("workers", ""));
  RETURN_IF_ERROR(WriteWorkerTable(traces.workers, collectives, SinkOf(*output, options)));
  return output->Finish();
}

}  // namespace strobe::table
