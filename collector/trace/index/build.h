// Makes the level-of-detail index of one trace.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "collector/trace/index/format.h"
#include "collector/trace/index/section_writer.h"
#include "collector/trace/xplane/space.h"

namespace strobe::index {

struct BuildOptions {
  // Identifies the trace; nullopt = SourceOf(trace).
  std::optional<Source> source{};
  std::size_t threads = 1;
  // Counts the events read so far, to show progress. May be null.
  std::atomic<std::uint64_t>* done = nullptr;
  // When it becomes true, building ends with Cancelled. May be null.
  const std::atomic<bool>* stop = nullptr;
  // A directory for a file without a name, in which the index of a large trace is made, so that it
  // may be larger than the memory. Empty if there is none.
  std::string spill_directory{};
  // A large trace has so many events.
  std::uint64_t min_spilled_events = std::uint64_t{1} << 25;
  // Called at the end. Its error becomes the result, such as that the trace's file was changed
  // while it was read. May be empty.
  std::function<absl::Status()> check = nullptr;
};

// Writes the index of `space` to `sink`. `trace` is the content of the file that `space` was read
// from; events are found there again by their place. DataLoss when the trace is damaged, OutOfRange
// when a line has more events than an index can number.
absl::Status BuildIndex(std::string_view trace, const xplane::Space& space,
                        const BuildOptions& options, const Sink& sink);

// Identifies a trace by its size and a hash of up to 64 pieces of it. This is cheap for any size,
// and tells two captures apart, because the times of their events differ everywhere.
Source SourceOf(std::string_view trace);
// Like SourceOf(trace), for a trace that is expensive to read. `identity` names it and its version;
// besides, only the first and the last piece are read. As SourceOf(trace) if `identity` is empty.
Source SourceOf(std::string_view trace, std::string_view identity);

}  // namespace strobe::index
