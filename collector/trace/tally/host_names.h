// What the events of a host's threads are, by their names and the categories that profilers give
// them. Pure.
#pragma once
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/trace/tally/tally.h"

namespace strobe::tally {

enum class HostKind : std::uint8_t {
  kNone,        // It is the profiler's own, or no thread's.
  kOperator,    // An operator of a framework, or an annotation of XLA's or TensorFlow's code.
  kAnnotation,  // A part that the program names.
  kRuntime,     // A call of a device's runtime or driver.
  kModule,      // A module of PyTorch: "nn.Module: Linear_3".
  kPython,      // A function of Python.
};
// "operator", "annotation", ...
std::string_view HostKindName(HostKind kind);

// `category`: as Kineto writes it; empty if the event has none.
HostKind HostKindOf(std::string_view name, std::string_view category);

// Reads what an event of a row is. DataLoss when the index does not fit the trace.
absl::StatusOr<HostKind> ReadHostKind(const Source& source, const index::Row& row,
                                      const index::Entry& entry);

}  // namespace strobe::tally
