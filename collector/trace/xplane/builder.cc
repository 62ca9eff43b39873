#include "collector/trace/xplane/builder.h"

#include <charconv>

#include "collector/trace/xplane/wire.h"
#include "common/text/safe_text.h"

namespace strobe::xplane {
namespace {

using wire::AppendBytesField;
using wire::AppendVarintField;

// The field numbers of xplane.proto.
namespace plane {
constexpr std::uint32_t kId = 1, kName = 2, kLines = 3, kEventMetadata = 4, kStatMetadata = 5,
                        kStats = 6;
}
namespace line {
constexpr std::uint32_t kId = 1, kName = 2, kTimestampNs = 3, kEvents = 4;
}
namespace event {
constexpr std::uint32_t kMetadataId = 1, kOffsetPs = 2, kDurationPs = 3, kStats = 4;
}
namespace stat {
constexpr std::uint32_t kMetadataId = 1, kDouble = 2, kUint64 = 3, kInt64 = 4, kText = 5, kRef = 7;
}

void AppendSigned(std::uint32_t field, std::int64_t value, std::string& to) {
  AppendVarintField(field, static_cast<std::uint64_t>(value), to);
}

// Replaces invalid UTF-8 in text from programs, because one invalid string would make the whole
// trace unreadable.
void AppendTextField(std::uint32_t field, std::string_view text, std::string& to) {
  if (IsUtf8(text)) return AppendBytesField(field, text, to);
  AppendBytesField(field, CutUtf8(text, std::string::npos), to);
}

// Appends an entry of a metadata map. In both maps' messages, the id is field 1 and the name is
// field 2.
void AppendMetadata(std::uint32_t field, std::int64_t id, std::string_view name, std::string& to) {
  std::string metadata, entry;
  AppendSigned(1, id, metadata);
  AppendTextField(2, name, metadata);
  AppendSigned(1, id, entry);
  AppendBytesField(2, metadata, entry);
  AppendBytesField(field, entry, to);
}

std::int64_t IdOf(std::map<std::string, std::int64_t, std::less<>>& names, std::string_view name) {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  const std::int64_t id = static_cast<std::int64_t>(names.size()) + 1;
  names.emplace(name, id);
  return id;
}

template <typename T>
bool ParseAll(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

BuilderValue TypedValue(std::string_view text) {
  std::int64_t integer = 0;
  if (ParseAll(text, integer)) return integer;
  std::uint64_t natural = 0;
  if (ParseAll(text, natural)) return natural;
  double number = 0;
  if (ParseAll(text, number)) return number;
  return Ref{text};
}

std::int64_t PlaneBuilder::EventId(std::string_view name) { return IdOf(events_, name); }
std::int64_t PlaneBuilder::StatId(std::string_view name) { return IdOf(stats_, name); }

void PlaneBuilder::BeginLine(std::int64_t id, std::string_view name, std::int64_t timestamp_ns) {
  EndLine();
  AppendSigned(line::kId, id, line_);
  AppendTextField(line::kName, name, line_);
  AppendSigned(line::kTimestampNs, timestamp_ns, line_);
}

void PlaneBuilder::AddEvent(std::int64_t event_id, std::int64_t offset_ps,
                            std::int64_t duration_ps) {
  EndEvent();
  AppendSigned(event::kMetadataId, event_id, event_);
  AppendSigned(event::kOffsetPs, offset_ps, event_);
  AppendSigned(event::kDurationPs, duration_ps, event_);
}

void PlaneBuilder::AddEventStat(std::int64_t stat_id, const BuilderValue& value) {
  AppendStat(event::kStats, stat_id, value, event_);
}

void PlaneBuilder::AddPlaneStat(std::string_view name, const BuilderValue& value) {
  AppendStat(plane::kStats, StatId(name), value, plane_stats_);
}

void PlaneBuilder::AppendStat(std::uint32_t field, std::int64_t stat_id, const BuilderValue& value,
                              std::string& to) {
  stat_.clear();
  AppendSigned(stat::kMetadataId, stat_id, stat_);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    AppendSigned(stat::kInt64, *integer, stat_);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&value)) {
    AppendVarintField(stat::kUint64, *natural, stat_);
  } else if (const auto* number = std::get_if<double>(&value)) {
    wire::AppendDoubleField(stat::kDouble, *number, stat_);
  } else if (const auto* text = std::get_if<std::string_view>(&value)) {
    AppendTextField(stat::kText, *text, stat_);
  } else if (const auto* ref = std::get_if<Ref>(&value)) {
    AppendSigned(stat::kRef, StatId(ref->text), stat_);
  } else {
    AppendSigned(stat::kRef, std::get<RefId>(value).id, stat_);
  }
  AppendBytesField(field, stat_, to);
}

void PlaneBuilder::EndEvent() {
  if (event_.empty()) return;
  AppendBytesField(line::kEvents, event_, line_);
  event_.clear();
}

void PlaneBuilder::EndLine() {
  EndEvent();
  if (line_.empty()) return;
  AppendBytesField(plane::kLines, line_, lines_);
  line_.clear();
}

std::string PlaneBuilder::Encode() {
  EndLine();
  std::string whole;
  if (id_ != 0) AppendSigned(plane::kId, id_, whole);
  AppendTextField(plane::kName, name_, whole);
  whole += lines_;
  for (const auto& [name, id] : events_) AppendMetadata(plane::kEventMetadata, id, name, whole);
  for (const auto& [name, id] : stats_) AppendMetadata(plane::kStatMetadata, id, name, whole);
  whole += plane_stats_;
  std::string field;
  AppendBytesField(1, whole, field);
  return field;
}

}  // namespace strobe::xplane
