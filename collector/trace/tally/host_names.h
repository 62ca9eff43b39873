// What the events of a host's threads are, by their names and the categories that profilers give
// them. Pure.
#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>

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

// Tells the kinds of the events of a plane. The first event of a name tells for all of them.
class HostKinds {
 public:
  // The source must outlive this.
  explicit HostKinds(const TallySource& source) : source_(source) {}

  // To be called with rows of one plane.
  absl::StatusOr<HostKind> Find(const index::Row& row, const index::Entry& entry);

 private:
  const TallySource& source_;
  std::unordered_map<std::uint32_t, HostKind> kinds_{};  // By the name's number in the index.
};

}  // namespace strobe::tally
