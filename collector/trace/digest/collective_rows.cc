#include "collector/trace/digest/collective_rows.h"

#include "collector/trace/digest/classify.h"
#include "collector/trace/digest/collectives.h"
#include "collector/trace/xplane/names.h"
#include "common/base/status_macros.h"

namespace strobe::digest {
namespace {

absl::Status ReadRow(const xplane::Plane& plane, const CollectiveStats& stats,
                     const xplane::Line& line, Gathered& gathered) {
  const std::int64_t origin = OriginOf(line);
  wire::Reader reader(line.bytes);
  while (reader.Next()) {
    if (reader.field() != 4 || !reader.is_bytes()) continue;
    RETURN_IF_ERROR(gathered.CheckStop());
    xplane::Event event;
    RETURN_IF_ERROR(xplane::ParseEvent(reader.bytes(), event));
    ASSIGN_OR_RETURN(const CollectiveStats::Values told, stats.Read(reader.bytes()));
    const CollectiveKind kind = CollectiveKindOf(told.name);
    if (kind == CollectiveKind::kSend || kind == CollectiveKind::kReceive) continue;
    const WorkClass work{.kind = WorkKind::kCommunication, .collective = kind};
    gathered.collectives.Add(plane.NameOf(event), "", work, told, kNoDevice,
                             TimesOf(origin, event));
  }
  return reader.status();
}

}  // namespace

CollectiveLines::CollectiveLines(const xplane::Plane& plane) {
  for (const xplane::Line& line : plane.lines) {
    const std::string_view name = line.name;
    if (IsMeasured(name)) repeated_.insert(name.substr(0, name.size() - xplane::kOnDevice.size()));
  }
}

bool CollectiveLines::IsMeasured(std::string_view line) {
  return line.ends_with(xplane::kOnDevice);
}

absl::Status ReadCollectiveRows(const xplane::Plane& plane, Gathered& gathered) {
  const CollectiveLines lines(plane);
  const CollectiveStats stats(plane);
  for (const xplane::Line& line : plane.lines) {
    if (lines.Count(line.name)) RETURN_IF_ERROR(ReadRow(plane, stats, line, gathered));
  }
  return absl::OkStatus();
}

}  // namespace strobe::digest
