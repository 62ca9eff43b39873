// walk_events FILE: reads all events of a trace and their integer stats, and does nothing with
// them: the time that reading alone takes. Prints the number of events and the seconds.
#include <chrono>
#include <cstdio>

#include "collector/trace/xplane/space.h"
#include "common/memory/mapped_file.h"

namespace {

using strobe::xplane::Event;
using strobe::xplane::Line;
using strobe::xplane::Plane;

absl::Status Walk(const strobe::xplane::Space& space, std::uint64_t& events, std::int64_t& sum) {
  for (const Plane& plane : space.planes) {
    for (const Line& line : plane.lines) {
      absl::Status stats;
      const absl::Status walked = strobe::xplane::ForEachEvent(line, [&](const Event& event) {
        ++events;
        sum += event.offset_ps + event.duration_ps;
        stats.Update(strobe::xplane::ForEachInteger(
            event, [&](std::int64_t, std::int64_t value) { sum += value; }));
      });
      if (!walked.ok()) return walked;
      if (!stats.ok()) return stats;
    }
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "walk_events FILE\n"), 2;
  const auto began = std::chrono::steady_clock::now();
  const absl::StatusOr<strobe::MappedFile> file = strobe::MappedFile::Open(argv[1]);
  if (!file.ok()) return std::fprintf(stderr, "%s\n", file.status().ToString().c_str()), 1;
  const auto space = strobe::xplane::Space::Read(file->bytes());
  if (!space.ok()) return std::fprintf(stderr, "%s\n", space.status().ToString().c_str()), 1;
  std::uint64_t events = 0;
  std::int64_t sum = 0;  // Printed, so that the compiler does not leave the walk out.
  if (const absl::Status walked = Walk(*space, events, sum); !walked.ok())
    return std::fprintf(stderr, "%s\n", walked.ToString().c_str()), 1;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("%llu %.4f %llx\n", static_cast<unsigned long long>(events), took.count(),
              static_cast<unsigned long long>(sum));
  return 0;
}
