#include "collector/trace/convert/merged_space.h"

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/edit.h"
#include "collector/trace/xplane/names.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::convert {

absl::Status WriteMergedSpace(const AlignedTraces& traces, const Sink& sink) {
  std::int64_t id = 0;
  std::string piece;
  for (const WorkerTrace& trace : traces.workers) {
    for (const xplane::Plane& plane : trace.space.planes) {
      // These planes hold times on the worker's own clock. One plane for all is written below.
      if (plane.name.starts_with(xplane::kTaskEnvironmentPlane) ||
          plane.name == xplane::kStrobePlane)
        continue;
      piece.clear();
      RETURN_IF_ERROR(xplane::AppendPlane(
          plane.bytes,
          {.tag = trace.worker, .shift_ns = trace.shift_ns, .id = ++id, .zero_ns = trace.zero_ns},
          piece));
      RETURN_IF_ERROR(sink(piece));
    }
    piece.clear();
    for (const std::string_view text : trace.space.errors)
      wire::AppendBytesField(xplane::kErrorsField, StrCat(trace.worker, ": ", text), piece);
    for (const std::string_view text : trace.space.warnings)
      wire::AppendBytesField(xplane::kWarningsField, StrCat(trace.worker, ": ", text), piece);
    RETURN_IF_ERROR(sink(piece));
  }
  piece.clear();
  for (const LeftOut& worker : traces.left_out)
    wire::AppendBytesField(xplane::kWarningsField, worker.Warning(), piece);
  RETURN_IF_ERROR(sink(piece));
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  if (traces.zero_ns != 0)
    environment.AddPlaneStat(xplane::kProfileStart, static_cast<std::uint64_t>(traces.zero_ns));
  return sink(environment.Encode());
}

}  // namespace strobe::convert
