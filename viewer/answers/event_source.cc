#include "viewer/answers/event_source.h"

#include "collector/trace/index/index.h"

namespace strobe::viewer {

absl::StatusOr<std::string_view> EventSource::At(std::uint64_t place) const {
  return index::EventAt(bytes, first_place, place);
}

absl::StatusOr<EventSource> SourceOf(const LoadedRun& run, const RowRef& ref) {
  const Worker& worker = run.WorkerOf(ref);
  const index::Row& row = run.RowOf(ref);
  const bool derived = row.derived != 0;
  const std::vector<xplane::Plane>& planes =
      derived ? worker.files->derived.planes : worker.files->space.planes;
  const std::size_t number = derived ? row.derived - 1 : row.plane;
  if (number >= planes.size()) return absl::DataLossError("the index does not fit the trace");
  const std::string_view trace = worker.files->trace.bytes();
  return derived ? EventSource{&planes[number], worker.index().derived(), trace.size()}
                 : EventSource{&planes[number], trace, 0};
}

}  // namespace strobe::viewer
