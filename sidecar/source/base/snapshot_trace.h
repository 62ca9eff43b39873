// Makes a capture's trace from a snapshot of a profiler server's continuous profiling, which goes
// back to the session's start or, if the tracer's buffers are circular, as far as these hold. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe::source {

struct SnapshotTrace {
  // Begins with the asked span, or with the session if that is later.
  std::string xspace{};
  // Whether a device has an event in it.
  bool has_devices = false;
  // For how long before the start it has the activity of every device that has any. What a device
  // did before its first event is not known to be recorded.
  Nanos reached_back{0};
};

// Leaves out events that began more than `look_back` before `start_ns`, which is in Unix
// nanoseconds on the server's clock. DataLoss if the snapshot is malformed or does not say when it
// began; ResourceExhausted if reading it takes more than `max_memory` bytes.
absl::StatusOr<SnapshotTrace> CutSnapshot(std::string_view snapshot, std::int64_t start_ns,
                                          Nanos look_back, std::uint64_t max_memory);

}  // namespace strobe::source
