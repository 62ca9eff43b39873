// An XSpace as it lies in memory or in a mapped file: names, planes and lines are read, events stay
// where they are and are walked line by line. No copy of the bytes, no limit on their size; the
// bytes must outlive it. Damaged or hostile input ends in DataLoss, unknown fields are skipped.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/xplane/wire.h"

namespace strobe::xplane {

struct Stat {
  std::int64_t name_id = 0;
  // Text also for what was kept once per plane; monostate when the trace gave none.
  std::variant<std::monostate, std::int64_t, std::uint64_t, double, std::string_view> value{};

  // As an integer, when it is one.
  std::optional<std::int64_t> Integer() const;
  // As a number, when it is one.
  std::optional<double> Number() const;
};

struct Event {
  std::int64_t name_id = 0;
  std::int64_t offset_ps = 0, duration_ps = 0;  // From the line's time stamp.
  // Not 0: so many events taken together, without a time of their own.
  std::int64_t occurrences = 0;
  std::string_view bytes{};
};

struct Line {
  std::int64_t id = 0, timestamp_ns = 0;
  std::string_view name{};
  std::uint64_t events = 0;
  std::string_view bytes{};
};

struct EventName {
  std::string_view name{}, display{};
  std::string_view bytes{};  // Of the metadata, whose stats every event of the name shares.

  std::string_view shown() const { return display.empty() ? name : display; }
};

struct Plane {
  std::int64_t id = 0;
  std::string_view name{};
  std::vector<Line> lines{};
  std::unordered_map<std::int64_t, EventName> event_names{};
  std::unordered_map<std::int64_t, std::string_view> stat_names{};
  std::string_view bytes{};

  // "?" where the trace names nothing.
  std::string_view NameOf(const Event& event) const;
  std::string_view NameOf(const Stat& stat) const;
  // Of a stat's name; 0 when no stat of the plane has it.
  std::int64_t StatId(std::string_view name) const;
  std::uint64_t events() const;

  // Of the plane itself.
  absl::Status ForEachStat(const std::function<void(const Stat&)>& visit) const;
  // Those that all events of a name share.
  absl::Status ForEachKindStat(const EventName& kind,
                               const std::function<void(const Stat&)>& visit) const;
};

// How far a space is read. Lines of which only the bytes are known cost nothing, however many
// events they hold.
enum class Depth { kLines, kPlanes };

struct Space {
  std::vector<Plane> planes{};
  std::vector<std::string_view> errors{}, warnings{}, hostnames{};

  // An empty plane, line or name takes two bytes of the input and a hundred times as much memory
  // here. So much of the input's size may be taken, and a little that is free; a trace that wants
  // more is made to harm its reader, and DataLoss.
  static constexpr std::uint64_t kMaxPerByte = 16, kFree = 1 << 20;
  // ResourceExhausted when it takes more than `most_memory`.
  static absl::StatusOr<Space> Read(
      std::string_view bytes, Depth depth = Depth::kLines,
      std::uint64_t most_memory = std::numeric_limits<std::uint64_t>::max());
  const Plane* Find(std::string_view name) const;
};

// One event from its own bytes.
absl::Status ParseEvent(std::string_view bytes, Event& event);

namespace internal {
absl::Status ReadStat(const Plane& plane, std::string_view bytes, Stat& stat);
}  // namespace internal

// `visit(const Event&)`, in the order of the file.
template <typename Visit>
absl::Status ForEachEvent(const Line& line, const Visit& visit) {
  wire::Reader reader(line.bytes);
  while (reader.Next()) {
    if (reader.field() != 4 || !reader.is_bytes()) continue;
    Event event;
    if (absl::Status status = ParseEvent(reader.bytes(), event); !status.ok()) return status;
    visit(event);
  }
  return reader.status();
}

// `visit(std::int64_t name_id, std::int64_t value)` for the stats that are integers: faster than
// ForEachStat, because nothing is looked up.
template <typename Visit>
absl::Status ForEachInteger(const Event& event, const Visit& visit) {
  wire::Reader reader(event.bytes);
  while (reader.Next()) {
    if (reader.field() != 4 || !reader.is_bytes()) continue;
    std::int64_t name_id = 0, value = 0;
    bool integer = false;
    wire::Reader stat(reader.bytes());
    while (stat.Next()) {
      if (stat.field() == 1) name_id = stat.signed_value();
      if (stat.field() != 3 && stat.field() != 4) continue;
      value = stat.signed_value();
      integer = true;
    }
    if (!stat.status().ok()) return stat.status();
    if (integer) visit(name_id, value);
  }
  return reader.status();
}

// `visit(const Stat&)`.
template <typename Visit>
absl::Status ForEachStat(const Plane& plane, const Event& event, const Visit& visit) {
  wire::Reader reader(event.bytes);
  while (reader.Next()) {
    if (reader.field() != 4 || !reader.is_bytes()) continue;
    Stat stat;
    if (absl::Status status = internal::ReadStat(plane, reader.bytes(), stat); !status.ok())
      return status;
    visit(stat);
  }
  return reader.status();
}

}  // namespace strobe::xplane
