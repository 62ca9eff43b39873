#include "collector/trace/kineto/open_spans.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>

#include "collector/trace/kineto/event_encoder.h"
#include "collector/trace/kineto/stats.h"
#include "collector/trace/xplane/wire.h"
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

// What the begin and the end of an event have in common. Chrome's `id` and `id2.global` are known
// to all processes, so that an event may end in another one.
std::string AsyncKey(const TraceEvent& event) {
  std::string key = StrCat(event.category, "\n", event.id.text);
  for (const Member& member : event.other_members) {
    if (member.key == "id2" || member.key == "scope")
      key += StrCat("\n", member.key, "\n", member.value.text);
    if (member.key == "id2" && IsLocal(member.value.text)) key += StrCat("\n", event.pid);
  }
  return key;
}

std::uint64_t NameHash(std::string_view name) {
  return name.empty() ? 0 : std::hash<std::string_view>()(name) | 1;
}

void AppendSized(std::string_view text, std::string& to) {
  wire::AppendVarint(text.size(), to);
  to += text;
}

std::string_view TakeSized(std::string_view& from) {
  std::uint64_t size = 0;
  for (unsigned shift = 0; !from.empty() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    size |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  const std::string_view taken = from.substr(0, size);
  from.remove_prefix(taken.size());
  return taken;
}

bool Begins(std::uint64_t phase) { return phase == 'B' || phase == 'b' || phase == 'S'; }
bool IsOnThread(std::uint64_t phase) { return phase == 'B' || phase == 'E'; }

}  // namespace

void OpenSpans::AddMark(const TraceEvent& event, std::int64_t at_ps, Line* line,
                        std::string_view body) {
  const bool on_thread = IsOnThread(static_cast<std::uint64_t>(event.phase));
  std::int64_t& newest = on_thread ? line->mark_ps : async_mark_ps_;
  if (at_ps < newest) in_order_ = false;
  newest = std::max(newest, at_ps);
  const std::string key = on_thread ? "" : AsyncKey(event);
  Mark mark{.at_ps = at_ps, .name_hash = NameHash(event.name), .line = line};
  mark.phase = static_cast<unsigned char>(event.phase);
  mark.key_size = static_cast<std::uint32_t>(key.size());
  mark.body_size = static_cast<std::uint32_t>(body.size());
  if (Begins(mark.phase)) mark.name_id = NameIdOf(event, *line);
  marks_.Append({reinterpret_cast<const char*>(&mark), sizeof mark});
  marks_.Append(key);
  marks_.Append(body);
  if (marks_.size() <= kMaxMarkBytes) return;
  // The rest of the file hardly tells anything about events that ended long ago.
  JoinMarks(kMaxMarkBytes / 2, times_.Usual());
}

// An end's arguments become stats of the event that it ends, whose plane is not known yet.
void OpenSpans::AddEnd(const TraceEvent& event, std::int64_t at_ps, Line* line) {
  std::string body;
  AppendSized(event.pid, body);
  for (const Member& arg : event.args) {
    body.push_back(static_cast<char>(arg.value.kind));
    AppendSized(arg.key, body);
    AppendSized(arg.value.text, body);
  }
  AddMark(event, at_ps, line, body);
}

// Writes an event. `args` are those of its end.
void OpenSpans::Close(const OpenSpan& span, std::int64_t end_ps, std::string_view args) {
  Line& line = *span.line;
  open_bytes_ -= span.cost;
  line.Begin(span.name_id, span.begin_ps, bytes_);
  bytes_.AddEncoded(span.stats);
  bytes_.AddDuration(end_ps - span.begin_ps);
  line.end_ps = std::max(line.end_ps, end_ps);
  while (!args.empty()) {
    Member arg;
    arg.value.kind = static_cast<JsonValue::Kind>(args.front());
    args.remove_prefix(1);
    arg.key = TakeSized(args);
    arg.value.text = TakeSized(args);
    AddStat(arg, line.group->names, bytes_);
  }
  if (span.unfinished) {
    AddTextStat("finished", "false", line.group->names, bytes_);
    ++report_.unfinished;
  }
  line.Append(bytes_.bytes());
}

// Joins the marks in the order of their times until at most `keep` bytes of them are left.
void OpenSpans::JoinMarks(std::size_t keep, const UsualTimes::Usual& usual) {
  // Returns the size of the first mark; 0 behind the last one.
  const auto read = [](std::string_view bytes, const auto& take) -> std::size_t {
    Mark mark;
    if (bytes.size() < sizeof mark) return 0;
    std::memcpy(&mark, bytes.data(), sizeof mark);
    bytes.remove_prefix(sizeof mark);
    take(mark, bytes.substr(0, mark.key_size), bytes.substr(mark.key_size, mark.body_size));
    return sizeof mark + mark.key_size + mark.body_size;
  };
  std::string bytes;
  bytes.reserve(marks_.size());
  marks_.Drain([&](std::string_view piece) { bytes += piece; });
  const std::string_view all = bytes;
  std::vector<std::pair<std::int64_t, std::size_t>> order;  // Time and place.
  for (std::size_t at = 0, size = 1; size > 0; at += size)
    size = read(all.substr(at), [&](const Mark& mark, std::string_view, std::string_view) {
      order.emplace_back(mark.at_ps, at);
    });
  if (!in_order_)
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  in_order_ = true;
  std::size_t left = all.size();
  for (const auto& [time, at] : order) {
    const bool now = left > keep;
    const std::size_t size =
        read(all.substr(at), [&](const Mark& mark, std::string_view key, std::string_view body) {
          // An end or beginning at another time is counted with all events of such times.
          if (now && usual.Has(mark.at_ps)) Join(mark, key, body);
        });
    if (now)
      left -= size;
    else
      marks_.Append(all.substr(at, size));
  }
}

void OpenSpans::Join(const Mark& mark, std::string_view key, std::string_view body) {
  const bool on_thread = IsOnThread(mark.phase);
  if (Begins(mark.phase)) {
    OpenSpan span{.stats = std::string(body),
                  .begin_ps = mark.at_ps,
                  .name_id = mark.name_id,
                  .name_hash = mark.name_hash,
                  .line = mark.line};
    const std::size_t cost = body.size() + key.size() + sizeof span + 128;
    if (open_bytes_ + cost > kMaxOpenBytes) {
      span.unfinished = true;
      return Close(span, span.begin_ps, "");
    }
    span.cost = cost;
    open_bytes_ += cost;
    (on_thread ? mark.line->open : async_[std::string(key)]).push_back(std::move(span));
    return;
  }
  const auto found = on_thread ? async_.end() : async_.find(std::string(key));
  if (on_thread ? mark.line->open.empty() : found == async_.end()) {
    ++report_.unmatched_ends;
    return;
  }
  EndNewest(mark, body, on_thread ? mark.line->open : found->second);
  if (!on_thread && found->second.empty()) async_.erase(found);
}

// Ends the newest event with the name of the end. On a thread that is the newest one if none has
// it. An asynchronous event of the same process goes first, because some programs count ids in each
// process.
void OpenSpans::EndNewest(const Mark& mark, std::string_view body, std::vector<OpenSpan>& open) {
  const std::string_view pid = TakeSized(body);
  const bool on_thread = IsOnThread(mark.phase);
  // The search has a limit, because a file may leave any number of events open.
  constexpr std::size_t kMaxSearched = 256;
  const auto limit =
      open.rbegin() + static_cast<std::ptrdiff_t>(std::min(open.size(), kMaxSearched));
  auto ended = limit;
  for (auto span = open.rbegin(); span != limit; ++span) {
    if (mark.name_hash != 0 && span->name_hash != 0 && mark.name_hash != span->name_hash) continue;
    if (ended == limit) ended = span;
    if (!on_thread && span->line->group->pid != pid) continue;
    ended = span;
    break;
  }
  if (ended == limit && !on_thread) {
    ++report_.unmatched_ends;
    return;
  }
  if (ended == limit) ended = open.rbegin();
  Close(*ended, mark.at_ps, body);
  open.erase(std::next(ended).base());
}

void OpenSpans::Clear(const Lines& lines) {
  for (const std::unique_ptr<Line>& line : lines.all()) line->open.clear();
  async_.clear();
  open_bytes_ = 0;
  marks_ = {};
  in_order_ = true;
  async_mark_ps_ = Line::kNever;
}

void OpenSpans::Finish(const Lines& lines, const UsualTimes::Usual& usual, std::int64_t end_ps) {
  JoinMarks(0, usual);
  const auto end_all = [&](std::vector<OpenSpan>& spans) {
    for (; !spans.empty(); spans.pop_back()) {
      spans.back().unfinished = true;
      Close(spans.back(), end_ps, "");
    }
  };
  for (const std::unique_ptr<Line>& line : lines.all()) end_all(line->open);
  for (auto& [key, spans] : async_) end_all(spans);
  async_.clear();
}

}  // namespace strobe::kineto
