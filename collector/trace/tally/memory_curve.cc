#include "collector/trace/tally/memory_curve.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
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
};

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
    const auto bounded = [](std::int64_t ps) {
      return std::clamp(ps, -index::kMaxEntryPs, index::kMaxEntryPs);
    };
    const std::int64_t begin_ps = bounded(index_.header().begin_ps);
    const std::int64_t span_ps =
        std::max<std::int64_t>(bounded(index_.header().end_ps) - begin_ps, 1);
    std::int64_t stretch = -1;
    for (TrackReader reader(index_, row_.first_track, Links::kLeftOut); reader.more();
         reader.Advance(), ++ordinal_) {
      if (ordinal_ >= values.size()) break;
      const double value = values[static_cast<std::size_t>(ordinal_)];
      const std::int64_t at_ps = reader.entry().begin_ps;
      if (ordinal_ == 0) curve.first = value;
      if (ordinal_ == 0 || value > curve.peak) {
        curve.peak = value;
        curve.peak_at_ps = at_ps;
        peak_ordinal = ordinal_;
      }
      curve.last = value;
      const auto part = static_cast<double>(at_ps - begin_ps) / static_cast<double>(span_ps);
      const auto here = static_cast<std::int64_t>(std::clamp(part, 0.0, 1.0) *
                                                  static_cast<double>(MemoryCurve::kMaxPoints - 1));
      if (here != stretch)
        curve.points.emplace_back(at_ps, value);
      else if (value > curve.points.back().second)
        curve.points.back() = {at_ps, value};
      stretch = here;
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
    std::unordered_map<std::int64_t, Followed> alive;
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
      if (!address) continue;
      if (found.bytes < 0)
        alive.erase(*address);
      else if (found.bytes > 0 && alive.size() < kMaxFollowed)
        alive[*address] = found;
    }
    return ListAlive(alive, curve);
  }

  static std::int64_t NumberIn(std::string_view text) {
    std::int64_t number = -1;
    (void)std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  absl::Status ListAlive(const std::unordered_map<std::int64_t, Followed>& alive,
                         MemoryCurve& curve) {
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
    for (const Followed& one : all) {
      ASSIGN_OR_RETURN(const std::string_view by, OperatorAt(one.thread, one.begin_ps));
      curve.alive.push_back({one.begin_ps, one.bytes, by});
    }
    return absl::OkStatus();
  }

  // The innermost operator or annotation on a thread, which has the number of its row.
  absl::StatusOr<std::string_view> OperatorAt(std::int64_t thread, std::int64_t at_ps) {
    std::string_view found;
    if (thread < 0) return found;
    std::pair innermost(std::numeric_limits<std::int64_t>::min(), std::uint32_t{0});
    for (const index::Row& row : index_.rows()) {
      if (row.id != thread || row.kind == index::RowKind::kCounter || row.derived != 0) continue;
      if (index_.Text(index_.planes()[row.plane].name).starts_with(xplane::kDevicePrefix)) continue;
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
  return curves;
}

}  // namespace strobe::tally
