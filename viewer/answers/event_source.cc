#include "viewer/answers/event_source.h"

namespace strobe::viewer {
namespace {

absl::Status DoesNotFit() { return absl::DataLossError("the index does not fit the trace"); }

}  // namespace

// The index keeps only an event's place. The length is the varint before it, which is read
// backwards: all of its bytes but the last have the top bit set.
absl::StatusOr<std::string_view> EventSource::At(std::uint64_t place) const {
  if (place <= first_place || place - first_place > bytes.size()) return DoesNotFit();
  const std::size_t begin = place - first_place;
  std::uint64_t length = 0;
  std::size_t at = begin - 1;
  unsigned count = 1;
  while (count < 10 && at > 0 && (static_cast<unsigned char>(bytes[at - 1]) & 0x80) != 0)
    --at, ++count;
  for (unsigned i = 0; i < count; ++i)
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i]) & 0x7f) << 7 * i;
  if (length > bytes.size() - begin) return DoesNotFit();
  return bytes.substr(begin, length);
}

absl::StatusOr<EventSource> SourceOf(const LoadedRun& run, const RowRef& ref) {
  const Worker& worker = run.WorkerOf(ref);
  const index::Row& row = run.RowOf(ref);
  const bool derived = row.derived != 0;
  const std::vector<xplane::Plane>& planes = derived ? worker.derived.planes : worker.space.planes;
  const std::size_t number = derived ? row.derived - 1 : row.plane;
  if (number >= planes.size()) return DoesNotFit();
  const std::string_view trace = worker.trace.bytes();
  return derived ? EventSource{&planes[number], worker.index().derived(), trace.size()}
                 : EventSource{&planes[number], trace, 0};
}

}  // namespace strobe::viewer
