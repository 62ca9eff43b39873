#include "collector/table/run_tables.h"

#include "collector/table/event_table.h"
#include "collector/table/small_tables.h"
#include "common/base/status_macros.h"

namespace strobe::table {
namespace {

ParquetFile::Sink SinkOf(TableOutput& output) {
  return [&output](std::string_view piece) { return output.Write(piece); };
}

absl::Status WriteEvents(const convert::WorkerTrace& trace, std::int64_t zero_ns,
                         const TableOptions& options, const OpenOutput& open) {
  std::unique_ptr<TableOutput> stats_output;
  std::unique_ptr<StatTable> stats;
  if (options.stats) {
    ASSIGN_OR_RETURN(stats_output, open("stats", trace.worker));
    ASSIGN_OR_RETURN(stats, StatTable::Create(SinkOf(*stats_output)));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<TableOutput> output, open("events", trace.worker));
  ASSIGN_OR_RETURN(const std::unique_ptr<EventTable> events,
                   EventTable::Create(SinkOf(*output), stats.get()));
  RETURN_IF_ERROR(events->AddTrace(trace, zero_ns));
  RETURN_IF_ERROR(events->Finish());
  if (stats != nullptr) {
    RETURN_IF_ERROR(stats->Finish());
    RETURN_IF_ERROR(stats_output->Finish());
  }
  return output->Finish();
}

}  // namespace

absl::Status WriteRunTables(const convert::AlignedTraces& traces, const TableOptions& options,
                            const OpenOutput& open) {
  for (const convert::WorkerTrace& trace : traces.workers) {
    RETURN_IF_ERROR(WriteEvents(trace, traces.zero_ns, options, open));
    ASSIGN_OR_RETURN(const std::unique_ptr<TableOutput> output, open("steps", trace.worker));
    RETURN_IF_ERROR(WriteStepTable(trace, traces.zero_ns, SinkOf(*output)));
    RETURN_IF_ERROR(output->Finish());
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<TableOutput> output, open("workers", ""));
  RETURN_IF_ERROR(WriteWorkerTable(traces.workers, SinkOf(*output)));
  return output->Finish();
}

}  // namespace strobe::table
