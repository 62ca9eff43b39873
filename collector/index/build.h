// Makes the index of one trace.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "collector/index/format.h"
#include "collector/xplane/space.h"

namespace strobe::index {

// Takes the index piece by piece; the first failure ends the work.
using Sink = std::function<absl::Status(std::string_view)>;

struct BuildOptions {
  std::size_t threads = 1;
  // Events done so far, for whoever waits. May be null.
  std::atomic<std::uint64_t>* done = nullptr;
  // Set by whoever no longer wants it: ends in Cancelled. May be null.
  const std::atomic<bool>* stop = nullptr;
  // Asked when all is read: a trace that was changed meanwhile gives no index. May be empty.
  std::function<absl::Status()> check = nullptr;
};

// `trace` is the file that `space` was read from. DataLoss when the trace is damaged.
absl::Status BuildIndex(std::string_view trace, const xplane::Space& space,
                        const BuildOptions& options, const Sink& sink);

// Of the trace's size and of pieces of its content: cheap for any size, and different for two
// captures, whose events carry different times.
Source SourceOf(std::string_view trace);

}  // namespace strobe::index
