#include "collector/trace/table/small_tables.h"

#include "collector/trace/analysis/steps.h"
#include "collector/trace/table/text_column.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"

namespace strobe::table {
namespace {

constexpr char kStepSchema[] =
    "message steps {"
    " required binary loop (STRING);"
    " required int64 step;"
    " required int64 start_ns;"
    " required int64 duration_ps; }";
constexpr char kWorkerSchema[] =
    "message workers {"
    " required binary worker (STRING);"
    " required int64 events;"
    " required int64 clock_offset_ns;"
    " optional int64 clock_error_ns;"
    " optional int64 window_start_ns;"
    " optional int64 window_end_ns;"
    " required int64 collectives;"
    " required int64 collectives_left_out; }";
constexpr std::size_t kMaxSteps = 1 << 20;

absl::Status WriteWhole(const char* schema, std::span<const Column> columns, std::size_t rows,
                        ParquetFile::Sink sink) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ParquetFile> file,
                   ParquetFile::Create(schema, std::move(sink)));
  if (rows > 0) RETURN_IF_ERROR(file->Write(columns, rows));
  return file->Finish();
}

}  // namespace

absl::Status WriteStepTable(const convert::WorkerTrace& trace, std::int64_t zero_ns,
                            ParquetFile::Sink sink) {
  ASSIGN_OR_RETURN(const std::vector<analysis::Step> steps,
                   analysis::FindSteps(trace.space, kMaxSteps));
  const std::int64_t zero = AddSaturated(zero_ns, trace.shift_ns);
  TextColumn loops;
  std::vector<std::int64_t> numbers, starts, durations;
  for (const analysis::Step& step : steps) {
    loops.Add(step.name);
    numbers.push_back(step.number);
    starts.push_back(AddSaturated(zero, step.begin_ps / 1000));
    durations.push_back(AddSaturated(step.end_ps, -step.begin_ps));
  }
  const Column columns[] = {
      loops.column(), {.integers = numbers}, {.integers = starts}, {.integers = durations}};
  return WriteWhole(kStepSchema, columns, steps.size(), std::move(sink));
}

absl::Status WriteWorkerTable(std::span<const convert::WorkerTrace> traces,
                              std::span<const CollectiveCount> collectives,
                              ParquetFile::Sink sink) {
  TextColumn workers;
  std::vector<std::int64_t> events, offsets, errors, begins, ends, calls, left_out;
  std::vector<std::uint8_t> has_error, has_window;
  for (const convert::WorkerTrace& trace : traces) {
    workers.Add(trace.worker);
    std::uint64_t count = 0;
    for (const xplane::Plane& plane : trace.space.planes) count += plane.events();
    events.push_back(static_cast<std::int64_t>(count));
    offsets.push_back(trace.clock_offset_ns);
    errors.push_back(trace.clock_error_ns.value_or(0));
    has_error.push_back(trace.clock_error_ns.has_value());
    begins.push_back(trace.window_begin_ns);
    ends.push_back(trace.window_end_ns);
    has_window.push_back(trace.window_end_ns != 0);
  }
  for (const CollectiveCount& count : collectives) {
    calls.push_back(static_cast<std::int64_t>(count.rows));
    left_out.push_back(static_cast<std::int64_t>(count.left_out));
  }
  const Column columns[] = {workers.column(),
                            {.integers = events},
                            {.integers = offsets},
                            {.integers = errors, .present = has_error},
                            {.integers = begins, .present = has_window},
                            {.integers = ends, .present = has_window},
                            {.integers = calls},
                            {.integers = left_out}};
  return WriteWhole(kWorkerSchema, columns, traces.size(), std::move(sink));
}

}  // namespace strobe::table
