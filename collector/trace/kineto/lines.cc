#include "collector/trace/kineto/lines.h"

#include <algorithm>

#include "collector/trace/xplane/space.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

std::size_t Slot(const LineKey& key) {
  std::size_t slot = static_cast<std::size_t>(key.kind) * 31 + key.category.size();
  for (const char c : key.pid) slot = slot * 31 + static_cast<unsigned char>(c);
  for (const char c : key.tid) slot = slot * 31 + static_cast<unsigned char>(c);
  return slot % 256;
}

// What tells lines apart.
std::string KeyText(const LineKey& key) {
  const char separator = '\0';
  const std::string_view cut(&separator, 1);
  return StrCat(static_cast<int>(key.kind), key.device ? "d" : "h", key.pid, cut, key.tid, cut,
                key.category);
}

bool Fits(const LineKey& key) {
  return std::max({key.pid.size(), key.tid.size(), key.category.size()}) <= Lines::kMaxText;
}

}  // namespace

void Line::Append(std::string_view event) {
  constexpr char kEvents = 4 << 3 | 2;
  std::array<char, 11> head{kEvents};
  std::size_t size = 1;
  std::uint64_t length = event.size();
  for (; length >= 0x80; length >>= 7) head[size++] = static_cast<char>(length | 0x80);
  head[size++] = static_cast<char>(length);
  events.Append({head.data(), size});
  events.Append(event);
  ++count;
}

void Line::LeaveOutAll() {
  events = {};
  count = 0;
  begun = false;
  first_ps = std::numeric_limits<std::int64_t>::max();
  last_ps = end_ps = mark_ps = kNever;
}

std::uint64_t Line::KeepUsual(const UsualTimes::Usual& usual, EventBytes& bytes) {
  std::uint64_t shortened = 0;
  const std::int64_t old_origin = origin_ps;
  ByteChunks old = std::move(events);
  LeaveOutAll();
  const auto keep = [&](std::string_view encoded) {
    xplane::Event event;
    wire::Reader fields(encoded);
    // The name and the time come first.
    std::size_t head = 0;
    for (int i = 0; i < 2 && fields.Next(); ++i) head += fields.raw().size();
    if (!xplane::ParseEvent(encoded, event).ok()) return;
    const std::int64_t begin = old_origin + event.offset_ps;
    if (!usual.Has(begin)) return;
    Begin(event.name_id, begin, bytes);
    bytes.AddEncoded(encoded.substr(head));
    if (begin + event.duration_ps > usual.latest_end_ps) {
      ++shortened;
      bytes.AddDuration(0);  // The last one of two values counts.
    } else {
      end_ps = std::max(end_ps, begin + event.duration_ps);
    }
    Append(bytes.bytes());
  };
  std::string left;
  old.Drain([&](std::string_view piece) {
    left += piece;
    std::size_t read = 0;
    for (wire::Reader reader(left); reader.Next(); read += reader.raw().size())
      keep(reader.bytes());
    left.erase(0, read);
  });
  return shortened;
}

Line& Lines::Find(const LineKey& key) {
  Recent& recent = recent_[Slot(key)];
  if (recent.line != nullptr && recent.line->kind == key.kind && recent.device == key.device &&
      recent.tid == key.tid && recent.pid == key.pid && recent.category == key.category)
    return *recent.line;
  Line& line = FindAny(key);
  if (!Fits(key)) return line;
  recent = {std::string(key.pid), std::string(key.tid), std::string(key.category), key.device,
            &line};
  return line;
}

Group* Lines::GroupOf(bool device, std::string_view pid) {
  if (pid.size() > kMaxText) pid = "others";
  const std::string key = StrCat(device ? "d" : "h", pid);
  if (const auto found = groups_.find(key); found != groups_.end()) return found->second.get();
  if (groups_.size() >= kMaxGroups && pid != "others") return GroupOf(device, "others");
  Group& group = *(groups_[key] = std::make_unique<Group>(table_));
  group.device = device;
  group.pid = pid;
  return &group;
}

Line* Lines::Existing(const LineKey& key) const {
  const auto found = by_key_.find(KeyText(key));
  return found == by_key_.end() ? nullptr : found->second;
}

Line& Lines::FindAny(const LineKey& key) {
  if (Line* line = Existing(key)) return *line;
  Group* const group = GroupOf(key.device, key.pid);
  if (lines_.size() < kMaxLines && Fits(key) && group->pid == key.pid) {
    Line& line = *lines_.emplace_back(std::make_unique<Line>());
    line.kind = key.kind;
    line.group = group;
    line.tid = key.tid;
    line.category = key.category;
    by_key_[KeyText(key)] = &line;
    return line;
  }
  // A group has two such lines, because counters are no spans.
  const bool counters = key.kind == LineKind::kCounters;
  const std::string others =
      StrCat("others", counters ? "c" : "", group->device ? "d" : "h", group->pid);
  Line*& line = by_key_[others];
  if (line == nullptr) {
    line = lines_.emplace_back(std::make_unique<Line>()).get();
    line->kind = counters ? LineKind::kCounters : LineKind::kThread;
    line->group = group;
    line->tid = "others";
    line->shared = true;
  }
  return *line;
}

}  // namespace strobe::kineto
