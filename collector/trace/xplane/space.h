// Reads an XSpace in memory or in a mapped file. Names, planes and lines are read at once; events
// stay in place and are read line by line. The bytes are not copied and must outlive the Space;
// their size is not limited. Damaged or hostile input causes DataLoss. Unknown fields are skipped.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collector/trace/xplane/wire.h"

namespace strobe::xplane {

struct Stat {
  std::int64_t name_id = 0;
  // Strings stored once per plane are resolved to text; monostate if the stat has no value.
  std::variant<std::monostate, std::int64_t, std::uint64_t, double, std::string_view> value{};

  // The value if it is an integer.
  std::optional<std::int64_t> Integer() const;
  // The value if it is a number.
  std::optional<double> Number() const;
};

struct Event {
  std::int64_t name_id = 0;
  std::int64_t offset_ps = 0, duration_ps = 0;  // The offset counts from the line's time stamp.
  // If not 0, this is an aggregate of this many events, which has no time of its own.
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
  // The bytes of the metadata, whose stats apply to every event with this name.
  std::string_view bytes{};

  std::string_view shown() const { return display.empty() ? name : display; }
};

struct Plane {
  std::int64_t id = 0;
  std::string_view name{};
  std::vector<Line> lines{};
  // By id. The hash is random, so that nobody can choose ids that collide; so is the order.
  absl::node_hash_map<std::int64_t, EventName> event_names{};
  absl::flat_hash_map<std::int64_t, std::string_view> stat_names{};
  absl::flat_hash_map<absl::string_view, std::int64_t> stat_ids{};  // By name; see StatId.
  std::string_view bytes{};

  // The name of an event or stat; "?" if the trace has none.
  std::string_view NameOf(const Event& event) const;
  std::string_view NameOf(const Stat& stat) const;
  // The id of a stat's name, the lowest if several share it; 0 if the plane does not have it.
  std::int64_t StatId(std::string_view name) const;
  std::uint64_t events() const;

  // Visits the stats of the plane itself.
  absl::Status ForEachStat(const std::function<void(const Stat&)>& visit) const;
  // Visits the stats that are stored once per event name and apply to all its events.
  absl::Status ForEachKindStat(const EventName& kind,
                               const std::function<void(const Stat&)>& visit) const;
};

// How much of a space is read. With kPlanes, lines are not read, so they cost nothing.
enum class Depth { kLines, kPlanes };

struct Space {
  std::vector<Plane> planes{};
  std::vector<std::string_view> errors{}, warnings{}, hostnames{};

  // The memory for reading is limited to kMaxPerByte bytes per byte of input, plus kFree. An empty
  // plane, line or name takes two bytes of input and a hundred times as much memory, so a trace
  // that exceeds the limit was made to harm its reader and causes DataLoss.
  static constexpr std::uint64_t kMaxPerByte = 16, kFree = 1 << 20;
  // ResourceExhausted if reading takes more than `max_memory` bytes.
  static absl::StatusOr<Space> Read(
      std::string_view bytes, Depth depth = Depth::kLines,
      std::uint64_t max_memory = std::numeric_limits<std::uint64_t>::max());
  const Plane* Find(std::string_view name) const;
};

// Parses an event from its bytes.
absl::Status ParseEvent(std::string_view bytes, Event& event);

namespace internal {
absl::Status ReadStat(const Plane& plane, std::string_view bytes, Stat& stat);
}  // namespace internal

// Calls `visit(const Event&)` for every event, in file order.
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

// Calls `visit(std::int64_t name_id, std::int64_t value)` for the event's integer stats. Faster
// than ForEachStat, because it looks nothing up.
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

// Calls `visit(const Stat&)` for every stat of the event.
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
