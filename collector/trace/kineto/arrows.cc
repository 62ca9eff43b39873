// The arrows of TracePlanes.
#include "collector/trace/kineto/stats.h"
#include "collector/trace/kineto/trace_planes.h"

namespace strobe::kineto {
namespace {

// Whether the arrow leads from a launch to its work, so that its id is their correlation id. The
// other ways of writing it are those of PyTorch before 2.0.
bool LeadsFromLaunch(const TraceEvent& event) {
  return event.category == "ac2g" || event.category == "async_cpu_to_gpu" ||
         (event.category == "async" && event.name == "launch");
}

}  // namespace

// The newer way of writing arrows: the events themselves name both ends.
void TracePlanes::AddBoundFlow(const TraceEvent& event, Line& line) {
  if (event.other_members.empty()) return;
  const JsonValue* id = event.Other("bind_id");
  if (id == nullptr) return;
  const auto is = [&](std::string_view key) {
    const JsonValue* value = event.Other(key);
    return value != nullptr && value->text == "true";
  };
  const std::uint64_t direction =
      (is("flow_in") ? FlowEnd::kIn : 0) | (is("flow_out") ? FlowEnd::kOut : 0);
  if (direction == 0) return;
  bytes_.AddUint(line.group->names.UseStat(flow_id_), FlowId("", id->text, "") << 2 | direction);
  ++report_.flows;
}

std::uint64_t TracePlanes::FlowId(std::string_view category, std::string_view id,
                                  std::string_view pid) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << 56) - 1, kNumber = std::uint64_t{1} << 40;
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  // Chrome's ids are known to all processes. PyTorch counts these in each one.
  if (category != "fwdbwd" && category != "forward_backward") pid = {};
  const std::optional<std::int64_t> number = IntegerOf({JsonValue::Kind::kScalar, id});
  if (number && *number >= 0 && static_cast<std::uint64_t>(*number) < kNumber) {
    const std::uint64_t owner = table_.Id(category) * kNumber ^ table_.Id(pid) * (kNumber * kOdd);
    return (owner ^ static_cast<std::uint64_t>(*number)) & kMask;
  }
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::string_view part : {category, id, pid}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return (hash ^ hash >> 56) & kMask;
}

// An end belongs to the event that it follows in the file if they tell the same time, as Kineto
// writes it: of events that begin together, that is the one which is meant. Other ends wait.
void TracePlanes::AddFlow(const TraceEvent& event) {
  const std::optional<std::int64_t> at = TimeOf(event);
  if (!at) return;
  ++report_.flows;
  const std::uint64_t direction = event.phase == 's'   ? FlowEnd::kOut
                                  : event.phase == 'f' ? FlowEnd::kIn
                                                       : FlowEnd::kBoth;
  const JsonValue* bind = event.Other("bp");
  const FlowEnd end{.at_ps = *at,
                    .flow = FlowId(event.category, event.id.text, event.pid) << 2 | direction,
                    .correlation = LeadsFromLaunch(event) ? IntegerOf(event.id).value_or(0) : 0,
                    .next = event.phase == 'f' && (bind == nullptr || bind->text != "e")};
  const bool attached = pending_.line != nullptr && pending_.begin_ps == *at &&
                        pending_.line->tid == event.tid && pending_.line->group->pid == event.pid;
  if (!attached) return flow_ends_.Add(event.pid, event.tid, end);
  const FlowStat stat = StatOf(end, pending_.correlation.value_or(0), *pending_.line);
  if (stat == FlowStat::kFlow)
    return bytes_.AddUint(pending_.line->group->names.UseStat(flow_id_), end.flow);
  ++report_.joined_flows;
  if (stat == FlowStat::kCorrelation) AddCorrelation(end.correlation, *pending_.line);
}

}  // namespace strobe::kineto
