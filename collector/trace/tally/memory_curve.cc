#include "collector/trace/tally/memory_curve.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "collector/trace/digest/event_times.h"
#include "collector/trace/tally/host_names.h"
#include "collector/trace/tally/track_reader.h"
#include "collector/trace/xplane/names.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::tally {
namespace {

// Curves in one answer: more than the devices of a machine have.
constexpr std::size_t kMaxCurves = 64;
// Allocations that are followed at a time. Further ones are not seen.
constexpr std::size_t kMaxFollowed = std::size_t{1} << 20;
constexpr std::string_view kAllocated = "Total Allocated";

// PyTorch's counters, as collector/trace/kineto names them, and those of others by their names.
bool IsMemory(std::string_view counter) {
  return counter == kAllocated || counter == "Total Reserved" || counter == "Bytes" ||
         ContainsIgnoreCase(counter, "memory") || ContainsIgnoreCase(counter, "bytes");
}

// An allocation that is followed until it is given back.
struct Followed {
  std::int64_t begin_ps = 0, bytes = 0;
  std::int64_t thread = -1;
  std::string_view by{};
};
using AliveByAddress = std::map<std::int64_t, Followed>;

// Adds values to a curve, in the order of time.
class CurveMaker {
 public:
  CurveMaker(const index::Index& index, MemoryCurve& curve)
      : curve_(curve),
        begin_ps_(Bounded(index.header().begin_ps)),
        span_ps_(std::max<std::int64_t>(Bounded(index.header().end_ps) - begin_ps_, 1)) {}

  // True if it is the highest so far.
  bool Add(std::int64_t at_ps, double value) {
    const bool is_first = stretch_ < 0;
    const bool is_peak = is_first || value > curve_.peak;
    if (is_first) curve_.first = value;
    if (is_peak) {
      curve_.peak = value;
      curve_.peak_at_ps = at_ps;
    }
    curve_.last = value;
    const auto part = static_cast<double>(at_ps - begin_ps_) / static_cast<double>(span_ps_);
    const auto here = static_cast<std::int64_t>(std::clamp(part, 0.0, 1.0) *
                                                static_cast<double>(MemoryCurve::kMaxPoints - 1));
    if (here != stretch_)
      curve_.points.emplace_back(at_ps, value);
    else if (value > curve_.points.back().second)
      curve_.points.back() = {at_ps, value};
    stretch_ = here;
    return is_peak;
  }

 private:
  static std::int64_t Bounded(std::int64_t ps) {
    return std::clamp(ps, -index::kMaxEntryPs, index::kMaxEntryPs);
  }

  MemoryCurve& curve_;
  const std::int64_t begin_ps_, span_ps_;
  std::int64_t stretch_ = -1;
};

// The largest of what is alive; the others are counted in the curve.
std::vector<Followed> LargestOf(const AliveByAddress& alive, MemoryCurve& curve) {
  std::vector<Followed> all;
  all.reserve(alive.size());
  for (const auto& [address, one] : alive) {
    all.push_back(one);
    curve.alive_bytes = AddSaturated(curve.alive_bytes, one.bytes);
  }
  std::ranges::sort(all, [](const Followed& a, const Followed& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.begin_ps < b.begin_ps;
  });
  if (all.size() > MemoryCurve::kMaxAllocations) {
    curve.alive_left_out = all.size() - MemoryCurve::kMaxAllocations;
    all.resize(MemoryCurve::kMaxAllocations);
  }
  return all;
}

// Follows what is allocated, and what is given back with a negative size.
void Follow(std::int64_t address, const Followed& moved, AliveByAddress& alive) {
  if (moved.bytes < 0)
    alive.erase(address);
  else if (moved.bytes > 0 && alive.size() < kMaxFollowed)
    alive[address] = moved;
}

class CurveReader {
 public:
  CurveReader(const Source& source, const index::Row& row, Allocations allocations)
      : source_(source), index_(*source.index), row_(row), allocations_(allocations) {}

  absl::StatusOr<MemoryCurve> Read() {
    const index::Track& track = index_.tracks()[row_.first_track];
    MemoryCurve curve{.plane = index_.Text(index_.planes()[row_.plane].name),
                      .counter = index_.Text(row_.name),
                      .values = track.events};
    const std::span<const double> values = index_.values(track);
    std::uint64_t peak_ordinal = 0;
    CurveMaker maker(index_, curve);
    for (TrackReader reader(index_, row_.first_track, Links::kLeftOut); reader.more();
         reader.Advance(), ++ordinal_) {
      if (ordinal_ >= values.size()) break;
      if (maker.Add(reader.entry().begin_ps, values[static_cast<std::size_t>(ordinal_)]))
        peak_ordinal = ordinal_;
    }
    if (allocations_ == Allocations::kRead && curve.counter == kAllocated && ordinal_ > 0)
      RETURN_IF_ERROR(AddAlive(peak_ordinal, curve));
    return curve;
  }

 private:
  // Follows the allocations until the peak.
  absl::Status AddAlive(std::uint64_t peak_ordinal, MemoryCurve& curve) {
    const xplane::Plane* plane = source_.PlaneOf(row_);
    if (plane == nullptr) return absl::DataLossError("the index does not fit the trace");
    const std::int64_t address_id = plane->StatId("Addr"), bytes_id = plane->StatId("Bytes"),
                       thread_id = plane->StatId("tid");
    if (address_id == 0 || bytes_id == 0) return absl::OkStatus();
    curve.tells_allocations = true;
    AliveByAddress alive;
    std::uint64_t ordinal = 0;
    for (TrackReader reader(index_, row_.first_track, Links::kLeftOut);
         reader.more() && ordinal <= peak_ordinal; reader.Advance(), ++ordinal) {
      ASSIGN_OR_RETURN(const std::string_view bytes, source_.BytesOf(row_, reader.entry()));
      Followed found{.begin_ps = reader.entry().begin_ps};
      std::optional<std::int64_t> address;
      xplane::Event event;
      RETURN_IF_ERROR(digest::ReadEvent(
          bytes, event,
          [&](std::int64_t id) {
            return id != 0 && (id == address_id || id == bytes_id || id == thread_id);
          },
          [&](const digest::RawStat& stat) {
            if (stat.name_id == address_id) address = stat.value;
            if (stat.name_id == bytes_id) found.bytes = stat.value;
            if (stat.name_id == thread_id)
              found.thread = NumberIn(digest::TextOfStat(*plane, stat));
          }));
      if (address) Follow(*address, found, alive);
    }
    for (const Followed& one : LargestOf(alive, curve)) {
      ASSIGN_OR_RETURN(const std::string_view by, OperatorAt(one.thread, one.begin_ps));
      curve.alive.push_back({one.begin_ps, one.bytes, by});
    }
    return absl::OkStatus();
  }

  static std::int64_t NumberIn(std::string_view text) {
    std::int64_t number = -1;
    (void)std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  // The innermost operator or annotation on a thread, which has the number of its row.
  absl::StatusOr<std::string_view> OperatorAt(std::int64_t thread, std::int64_t at_ps) {
    std::string_view found;
    if (thread < 0) return found;
    std::pair innermost(std::numeric_limits<std::int64_t>::min(), std::uint32_t{0});
    for (const index::Row& row : index_.rows()) {
      if (row.id != thread || row.kind == index::RowKind::kCounter || row.derived != 0) continue;
      if (!xplane::MayHaveThreads(index_.Text(index_.planes()[row.plane].name))) continue;
      for (std::uint32_t i = 0; i < row.tracks; ++i) {
        const index::Track& track = index_.tracks()[row.first_track + i];
        const std::uint64_t next = index_.FirstFrom(track, at_ps + 1);
        if (next == 0) continue;
        const std::optional<index::Entry> entry = index_.EntryAt(track, next - 1);
        if (!entry || entry->end_ps() < at_ps) continue;
        const std::pair place(entry->begin_ps, track.depth);
        if (place < innermost) continue;
        ASSIGN_OR_RETURN(const HostKind kind, ReadHostKind(source_, row, *entry));
        if (kind != HostKind::kOperator && kind != HostKind::kAnnotation) continue;
        innermost = place;
        found = index_.Text(entry->name);
      }
    }
    return found;
  }

  const Source& source_;
  const index::Index& index_;
  const index::Row& row_;
  const Allocations allocations_;
  std::uint64_t ordinal_ = 0;
};

// The allocators of XLA and TensorFlow tell of each allocation by an event on the thread that asks
// for it, which says how much is allocated then.
class AllocatorReader {
 public:
  explicit AllocatorReader(const Source& source) : source_(source), index_(*source.index) {}

  absl::Status Read(Allocations allocations, std::vector<MemoryCurve>& curves) {
    FindNames();
    for (const index::Row& row : index_.rows()) {
      if (mask_ == 0 || row.kind == index::RowKind::kCounter || row.derived != 0) continue;
      if (!xplane::MayHaveThreads(index_.Text(index_.planes()[row.plane].name))) continue;
      const xplane::Plane* plane = source_.PlaneOf(row);
      if (plane == nullptr) return absl::DataLossError("the index does not fit the trace");
      const MoveStats stats(*plane);
      for (std::uint32_t i = 0; i < row.tracks; ++i)
        RETURN_IF_ERROR(ReadTrack(row, index_.tracks()[row.first_track + i], stats));
    }
    for (auto& [allocator, moves] : moves_) {
      if (curves.size() == kMaxCurves) break;
      curves.push_back(CurveOf(allocator, moves, allocations));
    }
    return absl::OkStatus();
  }

 private:
  // An allocation, or one that is given back, which has a negative size.
  struct Move {
    std::int64_t address = 0;
    double allocated = 0;  // By the allocator, afterwards.
    Followed what{};
  };
  // The plane of an event, and the ids that tell of a move in it; 0: no event has that.
  struct MoveStats {
    explicit MoveStats(const xplane::Plane& of)
        : plane(of),
          allocator(of.StatId("allocator_name")),
          allocated(of.StatId("bytes_allocated")),
          size(of.StatId("allocation_bytes")),
          address(of.StatId("addr")),
          by(of.StatId("tf_op")) {}

    bool Has(std::int64_t id) const {
      return id != 0 &&
             (id == allocator || id == allocated || id == size || id == address || id == by);
    }

    const xplane::Plane& plane;
    const std::int64_t allocator, allocated, size, address, by;
  };

  void FindNames() {
    for (std::uint32_t id = 0; id < index_.texts(); ++id) {
      const std::string_view text = index_.Text(id);
      if (text != "MemoryAllocation" && text != "MemoryDeallocation") continue;
      (text == "MemoryAllocation" ? allocation_ : deallocation_) = id;
      mask_ |= std::uint64_t{1} << id % 64;
    }
  }

  absl::Status ReadTrack(const index::Row& row, const index::Track& track, const MoveStats& stats) {
    absl::Status status;
    for (const index::Block& block : index_.blocks(track)) {
      if ((block.names & mask_) == 0) continue;
      if (source_.is_gone && source_.is_gone())
        return absl::CancelledError("nobody waits for the curves any more");
      index_.ForEachEntry(block, [&](const index::Entry& entry) {
        const bool moves = entry.name == allocation_ || entry.name == deallocation_;
        if (moves && read_++ < kMaxFollowed) status.Update(ReadMove(row, entry, stats));
      });
      RETURN_IF_ERROR(status);
    }
    return status;
  }

  absl::Status ReadMove(const index::Row& row, const index::Entry& entry, const MoveStats& stats) {
    ASSIGN_OR_RETURN(const std::string_view bytes, source_.BytesOf(row, entry));
    std::string_view allocator = index_.Text(index_.planes()[row.plane].name);
    Move move{.what = {.begin_ps = entry.begin_ps}};
    xplane::Event event;
    RETURN_IF_ERROR(digest::ReadEvent(
        bytes, event, [&stats](std::int64_t id) { return stats.Has(id); },
        [&](const digest::RawStat& stat) {
          if (stat.name_id == stats.allocator) allocator = digest::TextOfStat(stats.plane, stat);
          if (stat.name_id == stats.allocated) move.allocated = static_cast<double>(stat.value);
          if (stat.name_id == stats.size) move.what.bytes = std::max<std::int64_t>(stat.value, 0);
          if (stat.name_id == stats.address) move.address = stat.value;
          if (stat.name_id == stats.by) move.what.by = digest::TextOfStat(stats.plane, stat);
        }));
    if (entry.name == deallocation_) move.what.bytes = -move.what.bytes;
    moves_[allocator].push_back(move);
    return absl::OkStatus();
  }

  MemoryCurve CurveOf(std::string_view allocator, std::vector<Move>& moves,
                      Allocations allocations) const {
    MemoryCurve curve{.plane = allocator, .counter = "Allocated memory", .values = moves.size()};
    std::ranges::stable_sort(moves, {}, [](const Move& move) { return move.what.begin_ps; });
    CurveMaker maker(index_, curve);
    std::size_t peak = 0;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (maker.Add(moves[i].what.begin_ps, moves[i].allocated)) peak = i;
    }
    if (allocations == Allocations::kLeftOut) return curve;
    curve.tells_allocations = true;
    AliveByAddress alive;
    for (std::size_t i = 0; i <= peak; ++i) Follow(moves[i].address, moves[i].what, alive);
    for (const Followed& one : LargestOf(alive, curve))
      curve.alive.push_back({one.begin_ps, one.bytes, one.by});
    return curve;
  }

  const Source& source_;
  const index::Index& index_;
  std::uint32_t allocation_ = kNoName, deallocation_ = kNoName;  // The names' numbers.
  std::uint64_t mask_ = 0;  // Which blocks may have events of these names.
  std::uint64_t read_ = 0;
  std::map<std::string_view, std::vector<Move>> moves_{};  // By allocator.

  static constexpr std::uint32_t kNoName = std::numeric_limits<std::uint32_t>::max();
};

}  // namespace

absl::StatusOr<std::vector<MemoryCurve>> ReadMemory(const Source& source, Allocations allocations) {
  std::vector<MemoryCurve> curves;
  for (const index::Row& row : source.index->rows()) {
    if (row.kind != index::RowKind::kCounter || row.tracks == 0 || row.events == 0) continue;
    if (!IsMemory(source.index->Text(row.name)) || curves.size() == kMaxCurves) continue;
    if (source.is_gone && source.is_gone())
      return absl::CancelledError("nobody waits for the curves any more");
    CurveReader reader(source, row, allocations);
    ASSIGN_OR_RETURN(MemoryCurve curve, reader.Read());
    curves.push_back(std::move(curve));
  }
  AllocatorReader allocators(source);
  RETURN_IF_ERROR(allocators.Read(allocations, curves));
  return curves;
}

}  // namespace strobe::tally
