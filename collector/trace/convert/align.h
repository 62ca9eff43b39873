// Opens the traces of one run and corrects their times to one clock.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/convert/traces.h"
#include "common/memory/fetched_memory.h"
#include "common/memory/mapped_file.h"

namespace strobe::convert {

struct OpenTrace {
  std::string worker{};  // File name without ".xplane.pb".
  std::string path{};    // The file on this machine; empty when it came from a remote store.
  // A local file is mapped, an object is fetched where it is read, and what was converted is in
  // memory. Moving the object does not move the bytes.
  std::variant<std::unique_ptr<const std::string>, MappedFile, FetchedMemory> content{};
  // Names an object and its version, so that it is known again without being read; else empty.
  std::string identity{};
  std::string run{};  // The run's name, or that of the folder; empty for a single file.
  // DataLoss if the file cannot be read as a trace; its content is empty then.
  absl::Status damage{};
  std::shared_ptr<void> held{};  // Gives back, at the trace's end, what was reserved for it.

  std::string_view bytes() const {
    if (const auto* file = std::get_if<MappedFile>(&content)) return file->bytes();
    if (const auto* object = std::get_if<FetchedMemory>(&content)) return object->bytes();
    return *std::get<std::unique_ptr<const std::string>>(content);
  }
  // DataLoss when the file or the object was changed after it was opened; for an object also the
  // error that kept it from being read.
  absl::Status Check() const {
    if (const auto* file = std::get_if<MappedFile>(&content)) return file->Check();
    if (const auto* object = std::get_if<FetchedMemory>(&content)) return object->Check();
    return absl::OkStatus();
  }
};

// Returns the first error of the traces' Check(), otherwise `result`. Called at the end of work on
// traces, because a changed file explains every other error.
absl::Status Unchanged(const std::vector<OpenTrace>& traces, absl::Status result);

// A trace that is damaged, beside others that can be read.
struct LeftOut {
  std::string worker{}, why{};

  // "c is not shown: damaged or cut at byte 59"
  std::string Warning() const;
  // DataLoss, for where it cannot be left out.
  absl::Status Error() const;
};

struct AlignedTraces {
  std::vector<WorkerTrace> workers{};  // In the order of the traces.
  std::vector<LeftOut> left_out{};
  // The Unix time from which the workers' shifts count, in ns; 0 when no trace tells its start.
  std::int64_t zero_ns = 0;
};

// Reads the traces and puts them on one clock: each trace begins at its worker's start minus the
// clock offset that its capture measured. A trace that begins more than a day after the first one
// gets a warning. The result refers to the bytes of `traces`. Damaged traces are left out, because
// a worker that was killed while it wrote must not hide the others. DataLoss, with the worker's
// name, when all are damaged.
absl::StatusOr<AlignedTraces> AlignTraces(const std::vector<OpenTrace>& traces,
                                          xplane::Depth depth = xplane::Depth::kLines);

// Leaves out the workers with a damaged event as well, which AlignTraces does not notice. Returns
// how many there were. DataLoss, with the worker's name, when all are damaged. Reads all events and
// takes time; memory that was changed or could not be fetched looks damaged, see Unchanged.
absl::StatusOr<std::size_t> LeaveOutDamaged(AlignedTraces& traces);

// Reads one trace. As in AlignTraces, its lines' time stamps count from the trace's zero:
// the profiler's start, or the least Unix time of its lines if the trace does not tell the start.
absl::StatusOr<xplane::Space> ReadSpace(std::string_view trace);
// Sets `zero_ns` to that zero, a Unix time; 0 if the trace tells neither.
absl::StatusOr<xplane::Space> ReadSpace(std::string_view trace, std::int64_t& zero_ns);

// Each plane is renamed to "<plane> [<worker>]" and its lines are shifted, so that any reader of
// XSpaces shows all workers on one clock. Warnings name the workers that were left out. Errors are
// those of damaged traces (DataLoss) and of the sink.
absl::Status WriteMergedSpace(const AlignedTraces& traces, const Sink& sink);

}  // namespace strobe::convert
