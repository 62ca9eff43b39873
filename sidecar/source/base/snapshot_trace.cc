#include "sidecar/source/base/snapshot_trace.h"

#include <algorithm>
#include <limits>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/edit.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/space.h"
#include "collector/trace/xplane/summary.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"

namespace strobe::source {
namespace {

// Field numbers in XSpace, XPlane, XLine and XEvent.
constexpr std::uint32_t kPlanesField = 1, kHostnamesField = 4, kLinesField = 3, kTimestampField = 3,
                        kEventsField = 4, kOffsetField = 2;

struct SnapshotCut {
  std::int64_t zero_ns = 0;   // The time from which the snapshot's lines count.
  std::int64_t begin_ns = 0;  // The time from which those of the trace count.
};

struct PlaneActivity {
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();  // Also of what is left out.
  std::uint64_t kept = 0;
};

// In protobuf the last value of a field wins: a second time stamp or offset replaces the first one.
absl::Status AppendCutLine(std::string_view line, const SnapshotCut& cut, PlaneActivity& activity,
                           std::string& to) {
  std::int64_t timestamp = 0;
  wire::Reader head(line);
  while (head.Next()) {
    if (head.field() == kTimestampField) timestamp = head.signed_value();
  }
  RETURN_IF_ERROR(head.status());
  const std::int64_t base_ns =
      xplane::IsUnixTime(timestamp) ? timestamp : AddSaturated(cut.zero_ns, timestamp);
  const std::int64_t moved_ns = std::max(base_ns, cut.begin_ns);
  const std::uint64_t later_ps =
      (static_cast<std::uint64_t>(moved_ns) - static_cast<std::uint64_t>(base_ns)) * 1000;
  std::string body;
  wire::Reader reader(line);
  while (reader.Next()) {
    if (reader.field() != kEventsField || !reader.is_bytes()) {
      body.append(reader.raw());
      continue;
    }
    xplane::Event event;
    RETURN_IF_ERROR(xplane::ParseEvent(reader.bytes(), event));
    std::string moved;
    if (event.occurrences == 0) {  // An aggregate has no time of its own.
      const std::int64_t began_ns = AddSaturated(base_ns, event.offset_ps / 1000);
      activity.first_ns = std::min(activity.first_ns, began_ns);
      if (began_ns < cut.begin_ns) continue;
      ++activity.kept;
      if (later_ps > 0) {
        wire::AppendVarintField(kOffsetField,
                                static_cast<std::uint64_t>(event.offset_ps) - later_ps, moved);
      }
    }
    wire::AppendVarint(kEventsField << 3 | 2, body);
    wire::AppendVarint(reader.bytes().size() + moved.size(), body);
    body.append(reader.bytes()).append(moved);
  }
  RETURN_IF_ERROR(reader.status());
  wire::AppendVarintField(
      kTimestampField,
      static_cast<std::uint64_t>(moved_ns) - static_cast<std::uint64_t>(cut.begin_ns), body);
  wire::AppendBytesField(kLinesField, body, to);
  return absl::OkStatus();
}

absl::StatusOr<PlaneActivity> AppendCutPlane(std::string_view plane, const SnapshotCut& cut,
                                             std::string& to) {
  PlaneActivity activity;
  std::string body;
  wire::Reader reader(plane);
  while (reader.Next()) {
    if (reader.field() == kLinesField && reader.is_bytes())
      RETURN_IF_ERROR(AppendCutLine(reader.bytes(), cut, activity, body));
    else
      body.append(reader.raw());
  }
  RETURN_IF_ERROR(reader.status());
  wire::AppendBytesField(kPlanesField, body, to);
  return activity;
}

// Says when the trace, the recording and the snapshot's end were.
std::string EnvironmentOf(std::int64_t begin_ns, std::int64_t started_ns, std::int64_t stopped_ns) {
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart, static_cast<std::uint64_t>(begin_ns));
  environment.AddPlaneStat(xplane::kRecordingStart, static_cast<std::uint64_t>(started_ns));
  environment.AddPlaneStat(xplane::kProfileStop, static_cast<std::uint64_t>(stopped_ns));
  return environment.Encode();
}

}  // namespace

absl::StatusOr<SnapshotTrace> CutSnapshot(std::string_view snapshot, std::int64_t start_ns,
                                          Nanos look_back, std::uint64_t max_memory) {
  ASSIGN_OR_RETURN(const xplane::Space space,
                   xplane::Space::Read(snapshot, xplane::Depth::kLines, max_memory));
  ASSIGN_OR_RETURN(const std::int64_t zero_ns, xplane::TimeZero(space));
  ASSIGN_OR_RETURN(const xplane::TraceSummary summary, xplane::Summarize(space));
  if (zero_ns <= 0) return absl::DataLossError("it does not say when it began");
  const SnapshotCut cut{zero_ns, std::clamp(zero_ns, start_ns - look_back.count(), start_ns)};
  SnapshotTrace trace;
  trace.xspace = EnvironmentOf(cut.begin_ns, std::max(zero_ns, start_ns), summary.stopped_ns);
  std::int64_t from_ns = cut.begin_ns;
  for (const xplane::Plane& plane : space.planes) {
    if (plane.name.starts_with(xplane::kTaskEnvironmentPlane)) continue;
    ASSIGN_OR_RETURN(const PlaneActivity activity, AppendCutPlane(plane.bytes, cut, trace.xspace));
    if (!xplane::IsDevicePlane(plane.name) || activity.kept == 0) continue;
    trace.has_devices = true;
    from_ns = std::max(from_ns, activity.first_ns);
  }
  if (trace.has_devices) trace.reached_back = Nanos{std::max<std::int64_t>(start_ns - from_ns, 0)};
  for (const std::string_view text : space.errors)
    wire::AppendBytesField(xplane::kErrorsField, text, trace.xspace);
  for (const std::string_view text : space.warnings)
    wire::AppendBytesField(xplane::kWarningsField, text, trace.xspace);
  for (const std::string_view name : space.hostnames)
    wire::AppendBytesField(kHostnamesField, name, trace.xspace);
  return trace;
}

}  // namespace strobe::source
