#include "collector/trace/kineto/flow_ends.h"

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>

#include "collector/trace/kineto/device_work.h"
#include "collector/trace/kineto/stats.h"
#include "collector/trace/xplane/space.h"

namespace strobe::kineto {
namespace {

// So many ends are looked for at once; that bounds the memory beside the ends themselves.
constexpr std::size_t kEndsAtOnce = std::size_t{1} << 19;

// Joins the pieces of a line's bytes to whole events.
class EventPieces {
 public:
  // Calls `visit(std::string_view event)` for each event that is whole now.
  template <typename Visit>
  void Add(std::string_view piece, const Visit& visit) {
    rest_ += piece;
    std::size_t at = 0;
    for (std::size_t size = 0, head = 0; Whole(at, head, size); at += head + size)
      visit(std::string_view(rest_).substr(at + head, size));
    rest_.erase(0, at);
  }

 private:
  // Reads the tag and the length in front of an event, as Line::Append writes them.
  bool Whole(std::size_t at, std::size_t& head, std::size_t& size) const {
    size = 0;
    for (head = 1; at + head < rest_.size(); ++head) {
      const auto byte = static_cast<unsigned char>(rest_[at + head]);
      size |= std::size_t{byte & 0x7fu} << 7 * (head - 1);
      if (byte < 0x80) return rest_.size() - at - ++head >= size;
    }
    return false;
  }

  std::string rest_;
};

// An event that an end may belong to.
struct Around {
  std::int64_t begin_ps = std::numeric_limits<std::int64_t>::min(), length_ps = 0;
  std::uint64_t ordinal = 0;

  bool found() const { return begin_ps != std::numeric_limits<std::int64_t>::min(); }
  // The innermost event is the one that begins last, and of these the shortest. One without a
  // length contains nothing, so that it comes last.
  auto Rank() const { return std::tuple(begin_ps, length_ps > 0, -length_ps, ordinal); }
  bool operator<(const Around& other) const { return Rank() < other.Rank(); }
};

// The innermost of the events offered for ranges of ends, for each end. A tree, because events
// around many ends may be many themselves.
class InnermostEvents {
 public:
  explicit InnermostEvents(std::size_t ends) : size_(ends), best_(2 * ends) {}

  void Offer(std::size_t first, std::size_t last, const Around& event) {
    for (first += size_, last += size_; first < last; first /= 2, last /= 2) {
      if (first % 2 == 1) Improve(best_[first++], event);
      if (last % 2 == 1) Improve(best_[--last], event);
    }
  }
  Around Of(std::size_t end) const {
    Around best;
    for (std::size_t at = end + size_; at > 0; at /= 2) Improve(best, best_[at]);
    return best;
  }

 private:
  static void Improve(Around& best, const Around& other) {
    if (best < other) best = other;
  }

  const std::size_t size_;
  std::vector<Around> best_;
};

// The event that begins next after each end.
class NextEvents {
 public:
  explicit NextEvents(std::size_t ends) : next_(ends) {}

  // `ends`: how many of the ends come before the event begins, or then.
  void Offer(std::size_t ends, const Around& event) {
    if (ends > 0) Improve(next_[ends - 1], event);
  }
  // Call it once after the last Offer.
  void Finish() {
    for (std::size_t i = next_.size(); i > 1; --i) Improve(next_[i - 2], next_[i - 1]);
  }
  const Around& Of(std::size_t end) const { return next_[end]; }

 private:
  static void Improve(Around& best, const Around& other) {
    const auto rank = [](const Around& a) {
      return std::tuple(a.begin_ps, -a.length_ps, a.ordinal);
    };
    if (other.found() && (!best.found() || rank(other) < rank(best))) best = other;
  }

  std::vector<Around> next_;
};

// Does `other` fit an end better than `best`, which is of another line? A thread and a stream may
// have the same numbers: launches are on threads, and the work is on streams.
bool FitsBetter(const Around& other, bool other_on_device, const Around& best, const FlowEnd& end) {
  if (!other.found() || !best.found()) return other.found();
  const bool exact = other.begin_ps == end.at_ps, was_exact = best.begin_ps == end.at_ps;
  if (exact != was_exact) return exact;
  const bool wants_device = (end.flow & FlowEnd::kBoth) == FlowEnd::kIn;
  return exact ? other_on_device == wants_device : best.begin_ps < other.begin_ps;
}

// Finds the events of a line that a batch of ends, sorted by time, belongs to.
class LineSearch {
 public:
  template <typename Ends>
  LineSearch(const Line& line, const Ends& ends)
      : innermost_(ends.size()),
        next_(std::any_of(ends.begin(), ends.end(), [](const auto& e) { return e.end.next; })
                  ? ends.size()
                  : 0) {
    const auto until = [&](std::int64_t at_ps) {
      return static_cast<std::size_t>(
          std::partition_point(ends.begin(), ends.end(),
                               [&](const auto& e) { return e.end.at_ps <= at_ps; }) -
          ends.begin());
    };
    const bool any_next =
        std::any_of(ends.begin(), ends.end(), [](const auto& e) { return e.end.next; });
    EventPieces pieces;
    std::uint64_t ordinal = 0;
    line.events.ForEach([&](std::string_view piece) {
      pieces.Add(piece, [&](std::string_view bytes) {
        xplane::Event event;
        // The bytes are our own.
        (void)xplane::ParseEvent(bytes, event);
        const Around around{line.origin_ps + event.offset_ps, event.duration_ps, ordinal++};
        const std::size_t first = until(around.begin_ps - 1);
        innermost_.Offer(first, until(around.begin_ps + around.length_ps), around);
        if (any_next) next_.Offer(until(around.begin_ps), around);
      });
    });
    if (any_next) next_.Finish();
  }

  Around Of(std::size_t number, const FlowEnd& end) const {
    if (end.next && next_.Of(number).found()) return next_.Of(number);
    return innermost_.Of(number);
  }

 private:
  InnermostEvents innermost_;
  NextEvents next_;
};

// Whether the arrow leads from a launch to its work, so that its id is their correlation id. The
// other ways of writing it are those of PyTorch before 2.0.
bool LeadsFromLaunch(const TraceEvent& event) {
  return event.category == "ac2g" || event.category == "async_cpu_to_gpu" ||
         event.category == "async_gpu" ||  // It has the launch's name.
         (event.category == "async" && event.name == "launch");
}

std::uint64_t FlowId(std::string_view category, std::string_view id, std::string_view pid,
                     NameTable& table) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << 56) - 1, kNumber = std::uint64_t{1} << 40;
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  // Chrome's ids are known to all processes. PyTorch counts these in each one.
  if (category != "fwdbwd" && category != "forward_backward") pid = {};
  const std::optional<std::int64_t> number = IntegerOf({JsonValue::Kind::kScalar, id});
  if (number && *number >= 0 && static_cast<std::uint64_t>(*number) < kNumber) {
    const std::uint64_t owner = table.Id(category) * kNumber ^ table.Id(pid) * (kNumber * kOdd);
    return (owner ^ static_cast<std::uint64_t>(*number)) & kMask;
  }
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::string_view part : {category, id, pid}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return (hash ^ hash >> 56) & kMask;
}

}  // namespace

FlowEnd FlowEndOf(const TraceEvent& event, std::int64_t at_ps, NameTable& table) {
  const std::uint64_t direction = event.phase == 's'   ? FlowEnd::kOut
                                  : event.phase == 'f' ? FlowEnd::kIn
                                                       : FlowEnd::kBoth;
  const JsonValue* bind = event.Other("bp");
  return {.at_ps = at_ps,
          .flow = FlowId(event.category, event.id.text, event.pid, table) << 2 | direction,
          .correlation = LeadsFromLaunch(event) ? IntegerOf(event.id).value_or(0) : 0,
          .next = event.phase == 'f' && (bind == nullptr || bind->text != "e")};
}

std::uint64_t BoundFlowOf(const TraceEvent& event, NameTable& table) {
  if (event.other_members.empty()) return 0;
  const JsonValue* id = event.Other("bind_id");
  if (id == nullptr) return 0;
  const auto is = [&](std::string_view key) {
    const JsonValue* value = event.Other(key);
    return value != nullptr && value->text == "true";
  };
  const std::uint64_t direction =
      (is("flow_in") ? FlowEnd::kIn : 0) | (is("flow_out") ? FlowEnd::kOut : 0);
  return direction == 0 ? 0 : FlowId("", id->text, "", table) << 2 | direction;
}

FlowStat StatOf(const FlowEnd& end, std::int64_t own_correlation, const Line& line) {
  if (end.correlation == 0) return FlowStat::kFlow;
  if (end.correlation == own_correlation) return FlowStat::kNone;
  const std::uint64_t direction = end.flow & FlowEnd::kBoth;
  const bool on_device = line.group->device || SeemsDevices(line.signs);
  const bool fits = direction == (on_device ? FlowEnd::kIn : FlowEnd::kOut);
  return own_correlation == 0 && fits ? FlowStat::kCorrelation : FlowStat::kFlow;
}

void FlowEnds::Add(std::string_view pid, std::string_view tid, const FlowEnd& end) {
  if (recent_ == nullptr || recent_row_.first != pid || recent_row_.second != tid) {
    std::pair<std::string, std::string> row{pid, tid};
    if (rows_.size() >= Lines::kMaxLines && !rows_.contains(row)) {
      ++left_out_;
      return;
    }
    recent_ = &rows_[row];
    recent_row_ = std::move(row);
  }
  recent_->push_back({.end = end});
}

void FlowEnds::KeepUsual(const UsualTimes::Usual& usual) {
  for (auto& [row, ends] : rows_)
    std::erase_if(ends, [&](const Waiting& end) { return !usual.Has(end.end.at_ps); });
}

void FlowEnds::FindEvents(const std::vector<Line*>& lines, Ends& ends) {
  for (std::size_t begin = 0; begin < ends.size(); begin += kEndsAtOnce) {
    const std::span batch =
        std::span(ends).subspan(begin, std::min(kEndsAtOnce, ends.size() - begin));
    std::vector<Around> best(batch.size());
    for (std::size_t number = 0; number < lines.size(); ++number) {
      const LineSearch search(*lines[number], batch);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const Around found = search.Of(i, batch[i].end);
        if (!FitsBetter(found, lines[number]->group->device, best[i], batch[i].end)) continue;
        best[i] = found;
        batch[i].line = static_cast<std::uint32_t>(number + 1);
        batch[i].ordinal = found.ordinal;
      }
    }
  }
}

void FlowEnds::AddToLine(Line& line, std::span<const Waiting> ends, const Stats& stats,
                         Counts& counts) {
  ByteChunks events;
  std::swap(events, line.events);
  line.count = 0;
  PlaneNames& names = line.group->names;
  EventPieces pieces;
  EventBytes bytes;
  std::uint64_t ordinal = 0;
  auto next = ends.begin();
  const auto copy = [&](std::string_view event) {
    const std::uint64_t number = ordinal++;
    if (next == ends.end() || next->ordinal != number) return line.Append(event);
    bytes.Assign(event);
    std::int64_t correlation = 0;
    (void)xplane::ForEachInteger({.bytes = event}, [&](std::int64_t name, std::int64_t value) {
      if (name == std::int64_t{stats.correlation}) correlation = value;
    });
    std::uint64_t last_flow = 0;
    for (; next != ends.end() && next->ordinal == number; ++next) {
      const FlowStat stat = StatOf(next->end, correlation, line);
      counts.joined += stat == FlowStat::kFlow ? 0 : 1;
      if (stat == FlowStat::kCorrelation) {
        bytes.AddInt(names.UseStat(stats.correlation), correlation = next->end.correlation);
        line.group->launches.Add(correlation, next->end.at_ps);
      }
      if (stat == FlowStat::kFlow && next->end.flow != last_flow)
        bytes.AddUint(names.UseStat(stats.flow), last_flow = next->end.flow);
    }
    line.Append(bytes.bytes());
  };
  events.Drain([&](std::string_view piece) { pieces.Add(piece, copy); });
}

FlowEnds::Counts FlowEnds::Attach(Lines& lines, const Stats& stats) {
  Counts counts{.loose = std::exchange(left_out_, 0)};
  for (auto& [row, ends] : rows_) {
    std::vector<Line*> of_row;
    for (const bool device : {false, true}) {
      const LineKind kind = device ? LineKind::kStream : LineKind::kThread;
      Line* const line = lines.Existing(
          {.kind = kind, .device = device, .pid = row.first, .tid = row.second, .category = {}});
      if (line != nullptr) of_row.push_back(line);
    }
    std::sort(ends.begin(), ends.end(),
              [](const Waiting& a, const Waiting& b) { return a.end.at_ps < b.end.at_ps; });
    FindEvents(of_row, ends);
    std::sort(ends.begin(), ends.end(), [](const Waiting& a, const Waiting& b) {
      return std::tie(a.line, a.ordinal, a.end.flow) < std::tie(b.line, b.ordinal, b.end.flow);
    });
    auto begin = ends.cbegin();
    for (std::uint32_t number = 0; number <= of_row.size(); ++number) {
      const auto end =
          std::find_if(begin, ends.cend(), [&](const Waiting& one) { return one.line != number; });
      const std::span<const Waiting> of_line(begin, end);
      begin = end;
      if (number == 0)
        counts.loose += of_line.size();
      else if (!of_line.empty())
        AddToLine(*of_row[number - 1], of_line, stats, counts);
    }
    ends = {};
  }
  rows_.clear();
  recent_ = nullptr;
  return counts;
}

}  // namespace strobe::kineto
