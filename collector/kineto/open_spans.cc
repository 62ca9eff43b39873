// The events of TracePlanes whose beginning and end are written apart.
#include <algorithm>

#include "collector/kineto/stats.h"
#include "collector/kineto/trace_planes.h"
#include "common/base/strings.h"

namespace strobe::kineto {

// Keeps the event in `bytes_`, which has no duration yet. False if too many events are open.
bool TracePlanes::Keep(Line& line, std::int64_t begin_ps, std::vector<OpenSpan>& open) {
  const std::size_t bytes = bytes_.bytes().size() + sizeof(OpenSpan) + 64;
  if (open_bytes_ + bytes <= kMaxOpenBytes) {
    open_bytes_ += bytes;
    open.push_back({std::string(bytes_.bytes()), begin_ps});
    return true;
  }
  bytes_.AddDuration(0);
  AddTextStat("finished", "false", line.group->names, bytes_);
  AppendTo(line);
  ++report_.unfinished;
  return false;
}

// Writes an event that was kept. `end` is the event that ends it, whose arguments are added.
void TracePlanes::Close(OpenSpan& span, std::int64_t end_ps, const TraceEvent* end, Line& line) {
  open_bytes_ -= span.bytes.size() + sizeof(OpenSpan) + 64;
  bytes_.Assign(span.bytes);
  if (end_ps < span.begin_ps) ++report_.negative;
  bytes_.AddDuration(std::max<std::int64_t>(end_ps - span.begin_ps, 0));
  PlaneNames& names = line.group->names;
  if (end != nullptr) {
    for (const Member& arg : end->args) AddStat(arg, names, bytes_);
  } else {
    AddTextStat("finished", "false", names, bytes_);
    ++report_.unfinished;
  }
  AppendTo(line);
}

void TracePlanes::BeginSpan(const TraceEvent& event) {
  const std::optional<std::int64_t> begin = TimeOf(event);
  if (!begin) return;
  Write();
  EventKind kind{};
  Line& line = LineOf(event, kind);
  BeginEvent(event, line, *begin);
  AddStats(event, kind, line);
  AddBoundFlow(event, line);
  Keep(line, *begin, line.open);
}

void TracePlanes::EndSpan(const TraceEvent& event) {
  const std::optional<std::int64_t> end = TimeOf(event);
  if (!end) return;
  Write();
  EventKind kind{};
  Line& line = LineOf(event, kind);
  if (line.open.empty()) {
    ++report_.unmatched_ends;
    return;
  }
  Close(line.open.back(), *end, &event, line);
  line.open.pop_back();
}

void TracePlanes::AddAsync(const TraceEvent& event) {
  const std::optional<std::int64_t> at = TimeOf(event);
  if (!at) return;
  Write();
  const LineKey place{.kind = LineKind::kAsync, .pid = event.pid, .category = event.category};
  const bool begins = event.phase == 'b' || event.phase == 'S';
  const bool ends = event.phase == 'e' || event.phase == 'F';
  std::string key = StrCat(event.category, "\n", event.pid, "\n", event.id.text);
  for (const Member& member : event.others) {
    if (member.key == "id2" || member.key == "scope") key += StrCat("\n", member.value.text);
  }
  if (ends) {
    const auto found = async_.find(key);
    if (found == async_.end()) {
      ++report_.unmatched_ends;
      return;
    }
    AsyncSpans& spans = found->second;
    Close(spans.open.back(), *at, &event, *spans.line);
    spans.open.pop_back();
    if (spans.open.empty()) {
      open_bytes_ -= key.size() + sizeof(AsyncSpans);
      async_.erase(found);
    }
    return;
  }
  Line& line = lines_.Find(place);
  BeginEvent(event, line, *at);
  for (const Member& arg : event.args) AddStat(arg, line.group->names, bytes_);
  AddMembers(event, line);
  if (!event.tid.empty()) AddTextStat("tid", event.tid, line.group->names, bytes_);
  if (begins) {
    const auto [spans, fresh] = async_.try_emplace(key);
    if (fresh) open_bytes_ += key.size() + sizeof(AsyncSpans);
    spans->second.line = &line;
    if (Keep(line, *at, spans->second.open) || !fresh) return;
    open_bytes_ -= key.size() + sizeof(AsyncSpans);
    async_.erase(spans);
    return;
  }
  bytes_.AddDuration(0);
  AddTextStat("ph", std::string_view(&event.phase, 1), line.group->names, bytes_);
  AppendTo(line);
}

void TracePlanes::Finish() {
  if (!begun_) BeginTimes();
  Write();
  for (const std::unique_ptr<Line>& line : lines_.all()) {
    for (; !line->open.empty(); line->open.pop_back())
      Close(line->open.back(), end_ps_, nullptr, *line);
  }
  for (auto& [key, spans] : async_) {
    for (OpenSpan& span : spans.open) Close(span, end_ps_, nullptr, *spans.line);
  }
  async_.clear();
  // A window that begins longer than this before the first event is not the window of these events.
  constexpr std::int64_t kMaxWaitPs = 600'000'000'000'000;
  const std::optional<std::int64_t> window =
      window_begin_ && origin_us_ ? window_begin_->PsSince(*origin_us_) : std::nullopt;
  if (window && *window < begin_ps_ && begin_ps_ - *window < kMaxWaitPs) begin_ps_ = *window;
}

}  // namespace strobe::kineto
