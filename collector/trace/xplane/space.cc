#include "collector/trace/xplane/space.h"

#include <algorithm>
#include <bit>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::xplane {
namespace {

using wire::Reader;

// Limits the memory for reading, by worst-case estimates: a growing vector has up to twice the
// needed capacity and, while it grows, also its previous buffer.
class Allowance {
 public:
  static constexpr std::uint64_t kPlane = 3 * (sizeof(Plane) + 64),  // Includes its summary.
      kLine = 3 * sizeof(Line), kText = 3 * (sizeof(std::string_view) + sizeof(std::string)),
                                 kName = sizeof(std::pair<const std::int64_t, EventName>) +
                                         8 * sizeof(void*);

  Allowance(std::uint64_t input, std::uint64_t max_memory)
      : input_(input), honest_(Space::kFree + Space::kMaxPerByte * input), most_(max_memory) {}

  absl::Status Take(std::uint64_t bytes) {
    taken_ += bytes;
    if (taken_ > honest_)
      return absl::DataLossError(StrCat("the trace has more empty planes, lines and names than ",
                                        input_, " bytes can reasonably hold"));
    if (taken_ > most_)
      return absl::ResourceExhaustedError(
          StrCat("the trace's planes, lines and names take more than ", most_, " bytes of memory"));
    return absl::OkStatus();
  }

 private:
  const std::uint64_t input_, honest_, most_;
  std::uint64_t taken_ = 0;
};

absl::Status ReadLine(std::string_view bytes, Line& line) {
  line.bytes = bytes;
  std::string_view display;
  Reader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1:
        line.id = reader.signed_value();
        break;
      case 2:
        line.name = reader.bytes();
        break;
      case 3:
        line.timestamp_ns = reader.signed_value();
        break;
      case 4:
        ++line.events;
        break;
      case 11:
        display = reader.bytes();
        break;
      default:
        break;
    }
  }
  if (!display.empty()) line.name = display;
  return reader.status();
}

// Reads an entry of map<int64, XEventMetadata>.
absl::Status ReadEventName(std::string_view entry, Plane& plane) {
  std::int64_t id = 0;
  EventName name;
  Reader reader(entry);
  while (reader.Next()) {
    if (reader.field() == 1) id = reader.signed_value();
    if (reader.field() != 2) continue;
    name.bytes = reader.bytes();
    Reader metadata(reader.bytes());
    while (metadata.Next()) {
      if (metadata.field() == 2) name.name = metadata.bytes();
      if (metadata.field() == 4) name.display = metadata.bytes();
    }
    RETURN_IF_ERROR(metadata.status());
  }
  plane.event_names[id] = name;
  return reader.status();
}

// Reads an entry of map<int64, XStatMetadata>.
absl::Status ReadStatName(std::string_view entry, Plane& plane) {
  std::int64_t id = 0;
  std::string_view name;
  Reader reader(entry);
  while (reader.Next()) {
    if (reader.field() == 1) id = reader.signed_value();
    if (reader.field() != 2) continue;
    Reader metadata(reader.bytes());
    while (metadata.Next()) {
      if (metadata.field() == 2) name = metadata.bytes();
    }
    RETURN_IF_ERROR(metadata.status());
  }
  plane.stat_names[id] = name;
  return reader.status();
}

absl::Status ReadPlane(std::string_view bytes, Depth depth, Allowance& allowance, Plane& plane) {
  plane.bytes = bytes;
  Reader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1:
        plane.id = reader.signed_value();
        break;
      case 2:
        plane.name = reader.bytes();
        break;
      case 3:
        RETURN_IF_ERROR(allowance.Take(Allowance::kLine));
        plane.lines.push_back({.bytes = reader.bytes()});
        if (depth == Depth::kLines) RETURN_IF_ERROR(ReadLine(reader.bytes(), plane.lines.back()));
        break;
      case 4:
        RETURN_IF_ERROR(allowance.Take(Allowance::kName));
        RETURN_IF_ERROR(ReadEventName(reader.bytes(), plane));
        break;
      case 5:
        RETURN_IF_ERROR(allowance.Take(Allowance::kName));
        RETURN_IF_ERROR(ReadStatName(reader.bytes(), plane));
        break;
      default:
        break;
    }
  }
  plane.stat_ids.reserve(plane.stat_names.size());
  for (const auto& [id, name] : plane.stat_names) {
    std::int64_t& lowest = plane.stat_ids.try_emplace(ToAbsl(name), id).first->second;
    lowest = std::min(lowest, id);
  }
  return reader.status();
}

}  // namespace

absl::Status ParseEvent(std::string_view bytes, Event& event) {
  event.bytes = bytes;
  Reader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1:
        event.name_id = reader.signed_value();
        break;
      case 2:
        event.offset_ps = reader.signed_value();
        break;
      case 3:
        event.duration_ps = reader.signed_value();
        break;
      case 5:
        event.occurrences = reader.signed_value();
        break;
      default:
        break;
    }
  }
  return reader.status();
}

namespace internal {

absl::Status ReadStat(const Plane& plane, std::string_view bytes, Stat& stat) {
  Reader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1:
        stat.name_id = reader.signed_value();
        break;
      case 2:
        stat.value = std::bit_cast<double>(reader.value());
        break;
      case 3:
        stat.value = reader.value();
        break;
      case 4:
        stat.value = reader.signed_value();
        break;
      case 5:
      case 6:
        stat.value = reader.bytes();
        break;
      case 7: {
        const auto kept = plane.stat_names.find(reader.signed_value());
        stat.value = kept == plane.stat_names.end() ? std::string_view("?") : kept->second;
        break;
      }
      default:
        break;
    }
  }
  return reader.status();
}

}  // namespace internal

std::optional<double> Stat::Number() const {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* natural = std::get_if<std::uint64_t>(&value))
    return static_cast<double>(*natural);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::optional<std::int64_t> Stat::Integer() const {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* natural = std::get_if<std::uint64_t>(&value))
    return static_cast<std::int64_t>(*natural);
  return std::nullopt;
}

std::string_view Plane::NameOf(const Event& event) const {
  const auto found = event_names.find(event.name_id);
  return found == event_names.end() ? std::string_view("?") : found->second.shown();
}

std::string_view Plane::NameOf(const Stat& stat) const {
  const auto found = stat_names.find(stat.name_id);
  return found == stat_names.end() ? std::string_view("?") : found->second;
}

std::int64_t Plane::StatId(std::string_view wanted) const {
  const auto found = stat_ids.find(ToAbsl(wanted));
  return found == stat_ids.end() ? 0 : found->second;
}

std::uint64_t Plane::events() const {
  std::uint64_t events = 0;
  for (const Line& line : lines) events += line.events;
  return events;
}

absl::Status Plane::ForEachStat(const std::function<void(const Stat&)>& visit) const {
  Reader reader(bytes);
  while (reader.Next()) {
    if (reader.field() != 6) continue;
    Stat stat;
    RETURN_IF_ERROR(internal::ReadStat(*this, reader.bytes(), stat));
    visit(stat);
  }
  return reader.status();
}

absl::Status Plane::ForEachKindStat(const EventName& kind,
                                    const std::function<void(const Stat&)>& visit) const {
  constexpr std::uint32_t kStatsOfMetadata = 5;
  Reader reader(kind.bytes);
  while (reader.Next()) {
    if (reader.field() != kStatsOfMetadata || !reader.is_bytes()) continue;
    Stat stat;
    RETURN_IF_ERROR(internal::ReadStat(*this, reader.bytes(), stat));
    visit(stat);
  }
  return reader.status();
}

absl::StatusOr<Space> Space::Read(std::string_view bytes, Depth depth, std::uint64_t max_memory) {
  Space space;
  Allowance allowance(bytes.size(), max_memory);
  Reader reader(bytes);
  while (reader.Next()) {
    const std::uint32_t field = reader.field();
    if (field == 1) {
      RETURN_IF_ERROR(allowance.Take(Allowance::kPlane));
      RETURN_IF_ERROR(ReadPlane(reader.bytes(), depth, allowance, space.planes.emplace_back()));
    } else if (field <= 4) {
      RETURN_IF_ERROR(allowance.Take(Allowance::kText));
      (field == 2   ? space.errors
       : field == 3 ? space.warnings
                    : space.hostnames)
          .push_back(reader.bytes());
    }
  }
  RETURN_IF_ERROR(reader.status());
  return space;
}

const Plane* Space::Find(std::string_view name) const {
  const auto found = std::find_if(planes.begin(), planes.end(),
                                  [&](const Plane& plane) { return plane.name == name; });
  return found == planes.end() ? nullptr : &*found;
}

}  // namespace strobe::xplane
