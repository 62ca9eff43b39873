#include "collector/trace/table/run_tables.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "collector/trace/analysis/steps.h"
#include "collector/trace/convert/traces.h"
#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/digest/digest_json.h"
#include "collector/trace/report/digest_steps.h"
#include "collector/trace/table/event_table.h"
#include "collector/trace/table/parquet_file.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::table {
namespace {

constexpr char kCollectiveSchema[] =
    "message collectives {"
    " optional int64 rank;"
    " required binary communicator (STRING);"
    " required binary ranks (STRING);"
    " optional int64 size;"
    " required binary kind (STRING);"
    " required binary name (STRING);"
    " required int64 call;"
    " optional int64 sequence;"
    " optional int64 step;"
    " optional int64 call_in_step;"
    " optional binary device (STRING);"
    " required int64 start_ns;"
    " required int64 end_ns;"
    " optional int64 bytes; }";
constexpr std::size_t kMaxStepsOfCalls = 1 << 20;

// Integers of a column in which rows may have no value.
struct Optionals {
  std::vector<std::int64_t> values{};
  std::vector<std::uint8_t> present{};

  void Add(bool known, std::int64_t value) {
    values.push_back(known ? value : 0);
    present.push_back(known);
  }
  Column column() const { return {.integers = values, .present = present}; }
};

class CollectiveRows {
 public:
  CollectiveRows(const digest::Digest& digest, std::int64_t shift_ns)
      : digest_(digest), shift_ns_(shift_ns) {
    std::string_view loop;
    steps_ = report::StepsOf(digest, kMaxStepsOfCalls, loop);
  }

  void Add(const digest::Collective& call) {
    static const digest::Communicator kUnnamed;
    const digest::Communicator& group = call.communicator < digest_.communicators.size()
                                            ? digest_.communicators[call.communicator]
                                            : kUnnamed;
    ranks_.Add(digest_.rank.has_value(), digest_.rank.value_or(0));
    communicators_.Add(group.name);
    groups_.Add(RanksOf(call.communicator, group));
    sizes_.Add(group.size > 0, group.size);
    kinds_.Add(digest::NameOf(call.kind));
    names_.Add(digest_.names[call.name]);
    calls_.push_back(call.ordinal);
    sequences_.Add(call.sequence >= 0, call.sequence);
    AddStep(call);
    const bool on_device = call.device < digest_.devices.size();
    devices_.Add(on_device ? std::string_view(digest_.devices[call.device].name) : "");
    has_device_.push_back(on_device);
    starts_.push_back(AddSaturated(shift_ns_, call.begin_ns));
    ends_.push_back(AddSaturated(shift_ns_, call.end_ns));
    bytes_.Add(call.bytes > 0, static_cast<std::int64_t>(call.bytes));
  }

  absl::Status Write(ParquetFile& file) const {
    Column devices = devices_.column();
    devices.present = has_device_;
    const Column columns[] = {ranks_.column(),
                              communicators_.column(),
                              groups_.column(),
                              sizes_.column(),
                              kinds_.column(),
                              names_.column(),
                              {.integers = calls_},
                              sequences_.column(),
                              step_numbers_.column(),
                              in_step_.column(),
                              devices,
                              {.integers = starts_},
                              {.integers = ends_},
                              bytes_.column()};
    return starts_.empty() ? absl::OkStatus() : file.Write(columns, starts_.size());
  }

 private:
  // The ranks of a communicator as a text that lives as long as the rows.
  std::string_view RanksOf(std::uint32_t number, const digest::Communicator& group) {
    const auto [entry, fresh] = ranks_of_.try_emplace(number);
    if (fresh) {
      for (const std::uint32_t rank : group.ranks)
        entry->second += StrCat(entry->second.empty() ? "" : ",", rank);
    }
    return entry->second;
  }

  // The step in which the call began, and how many of its kind began before it in that step.
  void AddStep(const digest::Collective& call) {
    const std::int64_t begin_ns = report::CommonTime(digest_, call.begin_ns);
    const auto next = std::partition_point(steps_.begin(), steps_.end(), [&](const auto& step) {
      return step.time.begin_ns <= begin_ns;
    });
    const bool known = next != steps_.begin() && begin_ns < std::prev(next)->time.end_ns;
    const std::int64_t number = known ? std::prev(next)->number : 0;
    step_numbers_.Add(known, number);
    auto& before = before_[{call.communicator, call.name, call.device}];
    if (known && before.first != number) before = {number, 0};
    in_step_.Add(known, known ? before.second++ : 0);
  }

  const digest::Digest& digest_;
  const std::int64_t shift_ns_;
  std::vector<report::WorkerStepTime> steps_{};
  // The last step of each collective, and how many calls it has had in that step.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>,
           std::pair<std::int64_t, std::int64_t>>
      before_{};
  std::map<std::uint32_t, std::string> ranks_of_{};  // By communicator.
  Optionals ranks_{}, sizes_{}, sequences_{}, step_numbers_{}, in_step_{}, bytes_{};
  TextColumn communicators_{}, groups_{}, kinds_{}, names_{}, devices_{};
  std::vector<std::uint8_t> has_device_{};
  std::vector<std::int64_t> calls_{}, starts_{}, ends_{};
};

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

// Writes a row for each call of a collective that the digest tells, by arrival. `shift_ns` leads
// from the digest's times to Unix times on the clock that all workers share.
absl::Status WriteCollectiveTable(const digest::Digest& digest, std::int64_t shift_ns,
                                  ParquetFile::Sink sink) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ParquetFile> file,
                   ParquetFile::Create(kCollectiveSchema, std::move(sink)));
  CollectiveRows rows(digest, shift_ns);
  for (const digest::Collective& call : digest.collectives) rows.Add(call);
  RETURN_IF_ERROR(rows.Write(*file));
  return file->Finish();
}

// The training steps of one trace, ordered by start. DataLoss if the trace is damaged, otherwise
// the sink's error.
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

// How many calls of collectives the table `collectives` has of a worker, and how many it lacks.
struct CollectiveCount {
  std::uint64_t rows = 0, left_out = 0;
};

// What is known of each worker's clock and window. `collectives` has an element for each trace.
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

// Files are written piece by piece, so that this is where the work can end.
ParquetFile::Sink SinkOf(Output& output, const Options& options) {
  return [&output, stop = options.stop](std::string_view piece) -> absl::Status {
    if (stop != nullptr && stop->cancelled()) return absl::CancelledError("interrupted");
    return output.Write(piece);
  };
}

absl::Status WriteEvents(const convert::WorkerTrace& trace, std::int64_t zero_ns,
                         const Options& options, const OpenOutput& open) {
  std::unique_ptr<Output> stats_output;
  std::unique_ptr<StatTable> stats;
  if (options.stats) {
    ASSIGN_OR_RETURN(stats_output, open("stats", trace.worker));
    ASSIGN_OR_RETURN(stats, StatTable::Create(SinkOf(*stats_output, options)));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Output> output, open("events", trace.worker));
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
                              const Options& options, const OpenOutput& open,
                              CollectiveCount& count) {
  digest::Digest digest{.worker = trace.worker};
  if (options.digested || digest::MayHaveCollectives(trace.space)) {
    ASSIGN_OR_RETURN(digest,
                     digest::ComputeDigest(trace.space, trace.worker, options.stop, trace.zero_ns));
  }
  if (options.digested) options.digested(digest);
  count = {.rows = digest.collectives.size(), .left_out = digest.cuts.collectives};
  ASSIGN_OR_RETURN(const std::unique_ptr<Output> output, open("collectives", trace.worker));
  RETURN_IF_ERROR(WriteCollectiveTable(digest, AddSaturated(zero_ns, trace.shift_ns),
                                       SinkOf(*output, options)));
  return output->Finish();
}

}  // namespace

absl::Status WriteRunTables(const convert::AlignedTraces& traces, const Options& options,
                            const OpenOutput& open) {
  std::vector<CollectiveCount> collectives;
  for (const convert::WorkerTrace& trace : traces.workers) {
    RETURN_IF_ERROR(WriteEvents(trace, traces.zero_ns, options, open));
    ASSIGN_OR_RETURN(const std::unique_ptr<Output> output, open("steps", trace.worker));
    RETURN_IF_ERROR(WriteStepTable(trace, traces.zero_ns, SinkOf(*output, options)));
    RETURN_IF_ERROR(output->Finish());
    RETURN_IF_ERROR(
        WriteCollectives(trace, traces.zero_ns, options, open, collectives.emplace_back()));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Output> output, open("workers", ""));
  RETURN_IF_ERROR(WriteWorkerTable(traces.workers, collectives, SinkOf(*output, options)));
  return output->Finish();
}

}  // namespace strobe::table
