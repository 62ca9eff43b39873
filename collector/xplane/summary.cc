#include "collector/xplane/summary.h"

#include <algorithm>
#include <map>

#include "collector/base/status_macros.h"
#include "collector/xplane/names.h"
#include "collector/xplane/wire.h"

namespace strobe::xplane {
namespace {

using wire::Reader;

absl::StatusOr<std::string_view> PlaneName(std::string_view plane) {
  std::string_view name;
  Reader reader(plane);
  while (reader.Next()) {
    if (reader.field() == 2) name = reader.bytes();
  }
  RETURN_IF_ERROR(reader.status());
  return name;
}

absl::StatusOr<std::uint64_t> CountEvents(std::string_view line) {
  std::uint64_t events = 0;
  Reader reader(line);
  while (reader.Next()) events += reader.field() == 4 ? 1 : 0;
  RETURN_IF_ERROR(reader.status());
  return events;
}

// Entry of map<int64, XStatMetadata>: the metadata's id and name.
absl::Status ReadStatName(std::string_view entry, std::map<std::int64_t, std::string>& names) {
  std::int64_t id = 0;
  std::string name;
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
  names[id] = std::move(name);
  return reader.status();
}

struct PlaneParts {
  PlaneSummary summary;
  std::vector<std::pair<std::int64_t, std::int64_t>> stats;  // Metadata id and integer value.
  std::map<std::int64_t, std::string> stat_names;
};

absl::Status ReadStat(std::string_view stat, PlaneParts& parts) {
  std::int64_t id = 0, value = 0;
  Reader reader(stat);
  while (reader.Next()) {
    if (reader.field() == 1) id = reader.signed_value();
    if (reader.field() == 3 || reader.field() == 4) value = reader.signed_value();
  }
  parts.stats.emplace_back(id, value);
  return reader.status();
}

absl::StatusOr<PlaneParts> ReadPlane(std::string_view plane) {
  PlaneParts parts;
  Reader reader(plane);
  while (reader.Next()) {
    switch (reader.field()) {
      case 2:
        parts.summary.name = reader.bytes();
        break;
      case 3: {
        ASSIGN_OR_RETURN(const std::uint64_t events, CountEvents(reader.bytes()));
        ++parts.summary.lines;
        parts.summary.events += events;
        break;
      }
      case 5:
        RETURN_IF_ERROR(ReadStatName(reader.bytes(), parts.stat_names));
        break;
      case 6:
        RETURN_IF_ERROR(ReadStat(reader.bytes(), parts));
        break;
      default:
        break;
    }
  }
  RETURN_IF_ERROR(reader.status());
  return parts;
}

std::int64_t StatOf(const PlaneParts& parts, std::string_view wanted) {
  for (const auto& [id, value] : parts.stats) {
    const auto name = parts.stat_names.find(id);
    if (name != parts.stat_names.end() && name->second == wanted) return value;
  }
  return 0;
}

void ReadTimes(const PlaneParts& parts, TraceSummary& summary) {
  const std::int64_t asked = StatOf(parts, kRecordingStart), stop = StatOf(parts, kProfileStop);
  const std::int64_t start = asked != 0 ? asked : StatOf(parts, kProfileStart);
  summary.started_ns = std::max(summary.started_ns, start);
  if (stop != 0)
    summary.stopped_ns = summary.stopped_ns == 0 ? stop : std::min(summary.stopped_ns, stop);
}

}  // namespace

absl::StatusOr<TraceSummary> Summarize(std::string_view xspace) {
  TraceSummary summary;
  Reader reader(xspace);
  while (reader.Next()) {
    if (reader.field() == 1) {
      ASSIGN_OR_RETURN(PlaneParts parts, ReadPlane(reader.bytes()));
      // Joined traces carry one such plane per process, with the process named behind it.
      if (parts.summary.name.starts_with(kTaskEnvironmentPlane)) ReadTimes(parts, summary);
      summary.events += parts.summary.events;
      summary.planes.push_back(std::move(parts.summary));
    } else if (reader.field() == 2) {
      summary.errors.emplace_back(reader.bytes());
    } else if (reader.field() == 3) {
      summary.warnings.emplace_back(reader.bytes());
    } else if (reader.field() == 4) {
      summary.hostnames.emplace_back(reader.bytes());
    }
  }
  RETURN_IF_ERROR(reader.status());
  return summary;
}

absl::StatusOr<std::int64_t> TimeZero(std::string_view xspace) {
  std::int64_t zero = 0;
  Reader reader(xspace);
  while (reader.Next()) {
    if (reader.field() != 1) continue;
    ASSIGN_OR_RETURN(const std::string_view name, PlaneName(reader.bytes()));
    if (!name.starts_with(kTaskEnvironmentPlane)) continue;
    ASSIGN_OR_RETURN(const PlaneParts parts, ReadPlane(reader.bytes()));
    const std::int64_t start = StatOf(parts, kProfileStart);
    if (start != 0) zero = zero == 0 ? start : std::min(zero, start);
  }
  RETURN_IF_ERROR(reader.status());
  return zero;
}

}  // namespace strobe::xplane
