// The events of TracePlanes whose beginning and end are written apart.
#include <algorithm>

#include "collector/kineto/stats.h"
#include "collector/kineto/trace_planes.h"
#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

// Whether `id2` names an id that only its process knows, as in {"local": "0x5"}.
bool IsLocal(std::string_view id2) {
  constexpr std::string_view kLocal = "\"local\"";
  const std::size_t local = id2.find(kLocal);
  if (local == std::string_view::npos) return false;
  const std::size_t next = id2.find_first_not_of(" \t\r\n", local + kLocal.size());
  return next != std::string_view::npos && id2[next] == ':';
}

// The memory of an entry of the open events, beside its key.
constexpr std::size_t kAsyncBytes = sizeof(std::vector<OpenSpan>) + 16;

// What the begin and the end of an event have in common. Chrome's `id` and `id2.global` are known
// to all processes, so that an event may end in another one.
std::string AsyncKey(const TraceEvent& event) {
  std::string key = StrCat(event.category, "\n", event.id.text);
  for (const Member& member : event.others) {
    if (member.key == "id2" || member.key == "scope") key += StrCat("\n", member.value.text);
    if (member.key == "id2" && IsLocal(member.value.text)) key += StrCat("\n", event.pid);
  }
  return key;
}

}  // namespace

// Keeps the event in `bytes_`, which has no duration yet. False if too many events are open.
bool TracePlanes::Keep(Line& line, std::int64_t begin_ps, std::vector<OpenSpan>& open) {
  const std::size_t bytes = bytes_.bytes().size() + sizeof(OpenSpan) + 64;
  if (open_bytes_ + bytes <= kMaxOpenBytes) {
    open_bytes_ += bytes;
    open.push_back({std::string(bytes_.bytes()), begin_ps, &line});
    return true;
  }
  bytes_.AddDuration(0);
  AddTextStat("finished", "false", line.group->names, bytes_);
  AppendTo(line);
  ++report_.unfinished;
  return false;
}

// Writes an event that was kept. `end` is the event that ends it, whose arguments are added.
void TracePlanes::Close(OpenSpan& span, std::int64_t end_ps, const TraceEvent* end) {
  open_bytes_ -= span.bytes.size() + sizeof(OpenSpan) + 64;
  bytes_.Assign(span.bytes);
  if (end_ps < span.begin_ps) ++report_.negative;
  bytes_.AddDuration(std::max<std::int64_t>(end_ps - span.begin_ps, 0));
  PlaneNames& names = span.line->group->names;
  if (end != nullptr) {
    for (const Member& arg : end->args) AddStat(arg, names, bytes_);
  } else {
    AddTextStat("finished", "false", names, bytes_);
    ++report_.unfinished;
  }
  AppendTo(*span.line);
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
  Close(line.open.back(), *end, &event);
  line.open.pop_back();
}

void TracePlanes::EndAsync(const TraceEvent& event, std::int64_t end_ps) {
  const auto found = async_.find(AsyncKey(event));
  if (found == async_.end()) {
    ++report_.unmatched_ends;
    return;
  }
  std::vector<OpenSpan>& open = found->second;
  // Some programs count ids in each process. The newest event of the same process goes first.
  // The search has a limit, because a file may leave any number of events open.
  constexpr std::size_t kMaxSearched = 64;
  const auto limit =
      open.rbegin() + static_cast<std::ptrdiff_t>(std::min(open.size(), kMaxSearched));
  const auto same = std::find_if(open.rbegin(), limit, [&](const OpenSpan& span) {
    return span.line->group->pid == event.pid;
  });
  const auto ended = same == limit ? open.end() - 1 : same.base() - 1;
  Close(*ended, end_ps, &event);
  open.erase(ended);
  if (!open.empty()) return;
  open_bytes_ -= found->first.size() + kAsyncBytes;
  async_.erase(found);
}

void TracePlanes::AddAsync(const TraceEvent& event) {
  const std::optional<std::int64_t> at = TimeOf(event);
  if (!at) return;
  Write();
  const LineKey place{.kind = LineKind::kAsync, .pid = event.pid, .category = event.category};
  const bool begins = event.phase == 'b' || event.phase == 'S';
  if (event.phase == 'e' || event.phase == 'F') return EndAsync(event, *at);
  Line& line = lines_.Find(place);
  BeginEvent(event, line, *at);
  for (const Member& arg : event.args) AddStat(arg, line.group->names, bytes_);
  AddMembers(event, line);
  if (!event.tid.empty()) AddTextStat("tid", event.tid, line.group->names, bytes_);
  if (begins) {
    const auto [spans, fresh] = async_.try_emplace(AsyncKey(event));
    if (fresh) open_bytes_ += spans->first.size() + kAsyncBytes;
    if (Keep(line, *at, spans->second) || !fresh) return;
    open_bytes_ -= spans->first.size() + kAsyncBytes;
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
    for (; !line->open.empty(); line->open.pop_back()) Close(line->open.back(), end_ps_, nullptr);
  }
  for (auto& [key, spans] : async_) {
    for (OpenSpan& span : spans) Close(span, end_ps_, nullptr);
  }
  async_.clear();
  const FlowEnds::Counts flows = flow_ends_.Attach(lines_, {flow_id_, correlation_id_});
  report_.joined_flows += flows.joined;
  report_.loose_flows = flows.loose;
  // A window that begins longer than this before the first event is not the window of these events.
  constexpr std::int64_t kMaxWaitPs = 600'000'000'000'000;
  const std::optional<std::int64_t> window =
      window_begin_ && origin_us_ ? window_begin_->PsSince(*origin_us_) : std::nullopt;
  if (window && *window < begin_ps_ && begin_ps_ - *window < kMaxWaitPs) begin_ps_ = *window;
}

}  // namespace strobe::kineto
