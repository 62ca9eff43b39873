// Estimates the floating-point operations of PyTorch's operators from the shapes of their inputs.
// PyTorch counts the same when it is asked to, but its trace files have only the shapes.
#pragma once
#include <cstdint>
#include <optional>

#include "collector/trace/kineto/trace_event.h"

namespace strobe::kineto {

// nullopt for operators that PyTorch does not count, and for events without shapes. A product of
// matrices counts two operations per pair of numbers. Pure.
std::optional<std::uint64_t> FlopsOf(const TraceEvent& event);

}  // namespace strobe::kineto
