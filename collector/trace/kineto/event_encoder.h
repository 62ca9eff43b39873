// Encodes what an event of a trace file says about itself as an event of an XPlane.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "collector/trace/kineto/device_work.h"
#include "collector/trace/kineto/event_bytes.h"
#include "collector/trace/kineto/flow_ends.h"
#include "collector/trace/kineto/lines.h"
#include "collector/trace/kineto/names.h"
#include "collector/trace/kineto/trace_event.h"

namespace strobe::kineto {

// Estimates the floating-point operations of one of PyTorch's operators from the shapes of its
// inputs. PyTorch counts the same when it is asked to, but its trace files have only the shapes.
// nullopt for operators that PyTorch does not count, and for events without shapes. A product of
// matrices counts two operations per pair of numbers. Pure.
std::optional<std::uint64_t> FlopsOf(const TraceEvent& event);

// The id of the event's name on its line: steps, and annotations of inference servers, have that of
// their kind.
std::int64_t NameIdOf(const TraceEvent& event, const Line& line);

class EventEncoder {
 public:
  explicit EventEncoder(NameTable& table)
      : category_(table.Id("cat")),
        correlation_(table.Id("correlation_id")),
        flow_(table.Id("flow")),
        flops_(table.Id("flops")) {}

  // The event that is being encoded.
  EventBytes& bytes() { return bytes_; }

  // Begins an event with its name, its time, and the stats that do not depend on its kind.
  void Begin(const TraceEvent& event, Line& line, std::int64_t begin_ps);
  // Begins with these stats only.
  void BeginStats(const TraceEvent& event, const Line& line);
  // Adds the arguments and what they mean. Returns the id that a launch and its work share.
  std::optional<std::int64_t> AddStats(const TraceEvent& event, EventKind kind,
                                       std::int64_t begin_ps, Line& line);
  void AddCategory(const TraceEvent& event, PlaneNames& names);
  void AddCorrelation(std::int64_t correlation, std::int64_t begin_ps, Line& line);
  // `flow`: as FlowEnd has it.
  void AddFlow(std::uint64_t flow, Line& line);

  FlowEnds::Stats flow_stats() const { return {.flow = flow_, .correlation = correlation_}; }

 private:
  void AddHead(const TraceEvent& event, const Line& line);

  // The ids of stats that many events have.
  const std::uint32_t category_, correlation_, flow_, flops_;
  EventBytes bytes_{};
};

}  // namespace strobe::kineto
