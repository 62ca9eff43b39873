// Ends of arrows. Those that stand apart from their events are kept until all events are read: an
// end belongs to the event that its process, thread and time name, wherever both are in the file.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/kineto/lines.h"
#include "collector/trace/kineto/names.h"
#include "collector/trace/kineto/trace_event.h"
#include "collector/trace/kineto/usual_times.h"

namespace strobe::kineto {

struct FlowEnd {
  static constexpr std::uint64_t kIn = 1, kOut = 2, kBoth = 3;

  std::int64_t at_ps = 0;
  std::uint64_t flow = 0;  // The id, and the direction in the low two bits.
  // If the arrow leads from a launch to its work: their correlation id, which says the same.
  // Otherwise 0.
  std::int64_t correlation = 0;
  // The end belongs to the next event that begins there or later, not to that which is around it.
  bool next = false;
};

// Reads an end that is an event of its own, at this time.
FlowEnd FlowEndOf(const TraceEvent& event, std::int64_t at_ps, NameTable& table);
// The newer way of writing arrows: the events themselves name both ends. The arrow of such an event
// as FlowEnd has it; 0 if it has none.
std::uint64_t BoundFlowOf(const TraceEvent& event, NameTable& table);

// How an end is encoded in an event of the line, by the event's own correlation id; 0 = none.
enum class FlowStat : std::uint8_t { kNone, kCorrelation, kFlow };
FlowStat StatOf(const FlowEnd& end, std::int64_t own_correlation, const Line& line);

class FlowEnds {
 public:
  struct Counts {
    std::uint64_t joined = 0;  // They say what the correlation ids say.
    std::uint64_t loose = 0;   // No event is where they are.
  };
  // The ids of the stats.
  struct Stats {
    std::uint32_t flow = 0, correlation = 0;
  };

  void Add(std::string_view pid, std::string_view tid, const FlowEnd& end);
  // Leaves out the ends at other times.
  void KeepUsual(const UsualTimes::Usual& usual);
  // Adds the ends to the events of their lines, and forgets them. Call it after the last event.
  Counts Attach(Lines& lines, const Stats& stats);

 private:
  // An end on its way: which event it belongs to.
  struct Waiting {
    FlowEnd end{};
    std::uint32_t line = 0;     // 0 = none, otherwise the number of the line, from 1 on.
    std::uint64_t ordinal = 0;  // The place of the event in its line.
  };
  using Ends = std::vector<Waiting>;

  void FindEvents(const std::vector<Line*>& lines, Ends& ends);
  static void AddToLine(Line& line, std::span<const Waiting> ends, const Stats& stats,
                        Counts& counts);

  std::map<std::pair<std::string, std::string>, Ends, std::less<>> rows_;
  // The row of the newest end: neighbouring ends often are of the same one.
  Ends* recent_ = nullptr;
  std::pair<std::string, std::string> recent_row_{};
  std::uint64_t left_out_ = 0;  // There were too many rows.
};

}  // namespace strobe::kineto
