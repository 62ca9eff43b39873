#include "collector/trace/kineto/trace_planes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "collector/trace/kineto/device_work.h"
#include "collector/trace/kineto/micros.h"
#include "collector/trace/kineto/stats.h"
#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

// Whether Kineto tells of its own recording: its span, and the instant of its end.
bool IsOfProfiler(const TraceEvent& event) {
  return event.category.empty() || event.category == "Trace";
}

// The line of an event that is the host's, as far as it is known before the file's end.
Line& LineOfUnknown(const TraceEvent& event, LineKey key, Lines& lines) {
  const DeviceSign sign = SignOf(event);
  if (sign == DeviceSign::kTaskWithoutWork) {
    key.kind = LineKind::kStreamNotes;
    key.category = "waits";
  }
  Line& line = lines.Find(key);
  line.signs |= 1u << static_cast<unsigned>(sign);
  if (sign > DeviceSign::kHost)
    line.work_types |= WorkType(KindOfWork(EventKind::kKernel, event), event.name);
  return line;
}

Line& LineOf(const TraceEvent& event, EventKind& kind, Lines& lines) {
  kind = KindOfCategory(event.category);
  if (kind != EventKind::kHost && kind != EventKind::kStreamNote && !NamesDevice(event))
    kind = EventKind::kHost;
  kind = KindOfWork(kind, event);
  LineKey key{.pid = event.pid, .tid = event.tid};
  key.device = kind != EventKind::kHost;
  if (!key.device) return LineOfUnknown(event, key, lines);
  key.kind = IsWork(kind) ? LineKind::kStream : LineKind::kStreamNotes;
  if (key.kind == LineKind::kStreamNotes) key.category = event.category;
  Line& line = lines.Find(key);
  if (IsWork(kind)) line.work_types |= WorkType(kind, event.name);
  if (event.category.starts_with("mtia")) line.group->kind = "MTIA";
  return line;
}

}  // namespace

void TracePlanes::Add(const TraceEvent& event) {
  if (begun_ || event.phase == 'M') return Take(event);
  first_.Keep(event);
  if (first_.full()) BeginTimes();
}

void TracePlanes::Take(const TraceEvent& event) {
  ++report_.events;
  if (!IsOfProfiler(event)) ++report_.recorded;
  switch (event.phase) {
    case 'X':
      return AddSpan(event);
    case 'B':
      return BeginSpan(event);
    case 'E':
      return EndSpan(event);
    case 's':
    case 't':
    case 'f':
      return AddFlow(event);
    case 'b':
    case 'n':
    case 'e':
    case 'S':
    case 'T':
    case 'p':
    case 'F':
      return AddAsync(event);
    case 'C':
      return AddCounter(event);
    case 'M':
      return metadata_.Add(event);
    case '\0':
      --report_.events;
      if (!event.empty()) ++report_.no_phase;
      return;
    default:
      return AddInstant(event);
  }
}

// Decides from which time all times count, and takes the events that waited for it.
void TracePlanes::BeginTimes() {
  begun_ = true;
  times_.CountFrom(first_.MedianUs());
  for (const TraceEvent& event : first_.events()) Take(event);
  first_.Clear();
}

// nullopt, and counted, if the event has no usable time.
std::optional<std::int64_t> TracePlanes::TimeOf(const TraceEvent& event) {
  const std::optional<Micros> time = ParseMicros(event.ts.text);
  std::optional<std::int64_t> ps = time ? times_.Add(*time) : std::nullopt;
  if (time && !ps && times_.all_may_be_lost()) {
    StartAgain(time->us);
    ps = times_.Add(*time);
  }
  if (!ps) {
    ++report_.bad_time;
    --report_.events;
  }
  return ps;
}

// All events so far had times that were lost, as it turns out, and their line's times count from
// the wrong one.
void TracePlanes::StartAgain(std::int64_t origin_us) {
  const std::uint64_t lost = times_.Usual().count;
  report_.bad_time += lost;
  report_.events -= lost;
  for (const std::unique_ptr<Line>& line : lines_.all()) line->LeaveOutAll();
  open_spans_.Clear(lines_);
  flow_ends_ = {};
  pending_.line = nullptr;
  times_.CountFrom(origin_us);
}

void TracePlanes::WritePending() {
  if (pending_.line == nullptr) return;
  pending_.line->Append(encoder_.bytes().bytes());
  pending_.line = nullptr;
}

void TracePlanes::AddSpan(const TraceEvent& event) {
  const std::optional<std::int64_t> begin = TimeOf(event);
  if (!begin) return;
  WritePending();
  EventKind kind{};
  Line& line = LineOf(event, kind, lines_);
  encoder_.Begin(event, line, *begin);
  std::optional<std::int64_t> length = 0;
  if (event.dur.present()) {
    const std::optional<Micros> duration = ParseMicros(event.dur.text);
    length = duration ? duration->PsSince(0) : std::nullopt;
  }
  const bool usable =
      length && *length >= 0 && *length <= std::numeric_limits<std::int64_t>::max() / 2;
  if (!usable) {
    ++report_.negative;
    AddStat({"dur", event.dur}, line.group->names, encoder_.bytes());
    length = 0;
  }
  encoder_.bytes().AddDuration(*length);
  line.end_ps = std::max(line.end_ps, *begin + *length);
  pending_ = {.line = &line,
              .begin_ps = *begin,
              .correlation = encoder_.AddStats(event, kind, *begin, line)};
  AddBoundFlow(event, line);
}

// Events without a duration, of any phase.
void TracePlanes::AddInstant(const TraceEvent& event) {
  // Before PyTorch 1.12 it has no category.
  if (event.name == "[memory]" && (event.category == "cpu_instant_event" || event.category.empty()))
    return AddMemory(event);
  const std::optional<std::int64_t> begin = TimeOf(event);
  if (!begin) return;
  WritePending();
  EventKind kind{};
  Line& line = LineOf(event, kind, lines_);
  encoder_.Begin(event, line, *begin);
  encoder_.bytes().AddDuration(0);
  if (event.phase != 'i')
    AddTextStat("ph", std::string_view(&event.phase, 1), line.group->names, encoder_.bytes());
  pending_ = {.line = &line,
              .begin_ps = *begin,
              .correlation = encoder_.AddStats(event, kind, *begin, line)};
}

void TracePlanes::BeginSpan(const TraceEvent& event) {
  const std::optional<std::int64_t> begin = TimeOf(event);
  if (!begin) return;
  WritePending();
  EventKind kind{};
  Line& line = LineOf(event, kind, lines_);
  encoder_.BeginStats(event, line);
  encoder_.AddStats(event, kind, *begin, line);
  AddBoundFlow(event, line);
  open_spans_.AddBegin(event, *begin, line, encoder_.bytes().bytes());
}

void TracePlanes::EndSpan(const TraceEvent& event) {
  const std::optional<std::int64_t> end = TimeOf(event);
  if (!end) return;
  WritePending();
  EventKind kind{};
  open_spans_.AddEnd(event, *end, &LineOf(event, kind, lines_));
}

void TracePlanes::AddAsync(const TraceEvent& event) {
  const std::optional<std::int64_t> at = TimeOf(event);
  if (!at) return;
  WritePending();
  if (event.phase == 'e' || event.phase == 'F') return open_spans_.AddEnd(event, *at, nullptr);
  Line& line =
      lines_.Find({.kind = LineKind::kAsync, .pid = event.pid, .category = event.category});
  PlaneNames& names = line.group->names;
  EventBytes& bytes = encoder_.bytes();
  const bool begins = event.phase == 'b' || event.phase == 'S';
  if (begins)
    encoder_.BeginStats(event, line);
  else
    encoder_.Begin(event, line, *at);
  for (const Member& arg : event.args) AddStat(arg, names, bytes);
  AddOtherMembers(event, names, bytes);
  if (!event.tid.empty()) AddTextStat("tid", event.tid, names, bytes);
  if (begins) return open_spans_.AddBegin(event, *at, line, bytes.bytes());
  bytes.AddDuration(0);
  AddTextStat("ph", std::string_view(&event.phase, 1), names, bytes);
  line.Append(bytes.bytes());
}

void TracePlanes::AddCounter(const TraceEvent& event) {
  if (event.args.empty()) return AddInstant(event);
  const std::optional<std::int64_t> at = TimeOf(event);
  if (!at) return;
  WritePending();
  Line& line = lines_.Find({.kind = LineKind::kCounters, .pid = event.pid});
  PlaneNames& names = line.group->names;
  EventBytes& bytes = encoder_.bytes();
  const std::string id = event.id.present() ? StrCat(" ", event.id.text) : "";
  for (const Member& arg : event.args) {
    // A counter with one value has one name; of several values, each has a name of its own.
    const bool own = event.args.size() == 1;
    const std::string name = StrCat(event.name, id, own ? "" : " ", own ? "" : arg.key);
    line.Begin(names.EventId(name), *at, bytes);
    bytes.AddDuration(0);
    AddStat(arg, names, bytes);
    encoder_.AddCategory(event, names);
    line.Append(bytes.bytes());
  }
}

// An allocation, as Kineto writes it: how much is allocated and reserved afterwards become
// counters of the device, or of the process for its own memory.
void TracePlanes::AddMemory(const TraceEvent& event) {
  const std::optional<std::int64_t> at = TimeOf(event);
  if (!at) return;
  WritePending();
  ++report_.allocations;
  LineKey key{.kind = LineKind::kCounters, .pid = event.pid};
  const auto find = [&](std::string_view name) {
    return std::find_if(event.args.begin(), event.args.end(),
                        [&](const Member& arg) { return arg.key == name; });
  };
  const auto type = find("Device Type"), device = find("Device Id");
  if (type != event.args.end() && type->value.text != "0" && device != event.args.end()) {
    key.device = true;
    key.pid = device->value.text;
  }
  Line& line = lines_.Find(key);
  PlaneNames& names = line.group->names;
  EventBytes& bytes = encoder_.bytes();
  bool first = true;
  for (const std::string_view counter : {"Total Allocated", "Total Reserved", "Bytes"}) {
    const auto value = find(counter);
    // The size of the allocation itself is a counter only if there is no other value.
    if (value == event.args.end() || (counter == "Bytes" && !first)) continue;
    line.Begin(names.EventId(counter), *at, bytes);
    bytes.AddDuration(0);
    AddStat(*value, names, bytes);  // A counter's value is its first stat.
    for (const Member& arg : event.args) {
      if (first && arg.key != counter && arg.key != "Total Reserved") AddStat(arg, names, bytes);
    }
    if (std::exchange(first, false)) AddTextStat("tid", event.tid, names, bytes);
    line.Append(bytes.bytes());
  }
}

// An end belongs to the event that it follows in the file if they tell the same time, as Kineto
// writes it: of events that begin together, that is the one which is meant. Other ends wait.
void TracePlanes::AddFlow(const TraceEvent& event) {
  const std::optional<std::int64_t> at = TimeOf(event);
  if (!at) return;
  ++report_.flows;
  const FlowEnd end = FlowEndOf(event, *at, table_);
  const bool attached = pending_.line != nullptr && pending_.begin_ps == *at &&
                        pending_.line->tid == event.tid && pending_.line->group->pid == event.pid;
  if (!attached) return flow_ends_.Add(event.pid, event.tid, end);
  const FlowStat stat = StatOf(end, pending_.correlation.value_or(0), *pending_.line);
  if (stat == FlowStat::kFlow) return encoder_.AddFlow(end.flow, *pending_.line);
  ++report_.joined_flows;
  if (stat != FlowStat::kCorrelation) return;
  pending_.correlation = end.correlation;
  encoder_.AddCorrelation(end.correlation, *at, *pending_.line);
}

void TracePlanes::AddBoundFlow(const TraceEvent& event, Line& line) {
  const std::uint64_t flow = BoundFlowOf(event, table_);
  if (flow == 0) return;
  encoder_.AddFlow(flow, line);
  ++report_.flows;
}

// Leaves out the events with impossible times, and finds out when the trace begins and ends.
void TracePlanes::KeepUsual(const UsualTimes::Usual& usual) {
  report_.bad_time += usual.left_out;
  report_.events -= usual.left_out;
  begin_ps_ = usual.first_ps;
  end_ps_ = usual.last_ps;
  for (const std::unique_ptr<Line>& line : lines_.all()) {
    if (line->count == 0) continue;
    if (!line->IsUsual(usual)) report_.negative += line->KeepUsual(usual, encoder_.bytes());
    end_ps_ = std::max(end_ps_, line->end_ps);
  }
  flow_ends_.KeepUsual(usual);
}

void TracePlanes::Finish() {
  if (!begun_) BeginTimes();
  WritePending();
  const UsualTimes::Usual usual = times_.Usual();
  KeepUsual(usual);
  open_spans_.Finish(lines_, usual, end_ps_);
  const FlowEnds::Counts flows = flow_ends_.Attach(lines_, encoder_.flow_stats());
  report_.joined_flows += flows.joined;
  report_.loose_flows = flows.loose;
  for (const std::unique_ptr<Line>& line : lines_.all()) report_.spans += line->count;
  // A window that begins longer than this before the first event is not the window of these events.
  constexpr std::int64_t kMaxWaitPs = 600'000'000'000'000;
  const std::optional<Micros>& window_begin = metadata_.window_begin();
  const std::optional<std::int64_t> window =
      window_begin ? times_.PsSinceOrigin(*window_begin) : std::nullopt;
  if (window && *window < begin_ps_ && begin_ps_ - *window < kMaxWaitPs) begin_ps_ = *window;
}

}  // namespace strobe::kineto
