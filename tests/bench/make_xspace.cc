// make_xspace EVENTS FILE: writes a trace like that of a large job. It has four GPUs with eight
// streams each, and 32 host threads (64 rows); 500 names per plane, two levels of nesting, steps,
// and one or two stats per event. An arrow leads from each inner event of a thread to one of a
// stream.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"

namespace {

using strobe::xplane::PlaneBuilder;

class Row {
 public:
  // Host and GPU rows with the same `pair` have the same correlation ids.
  Row(PlaneBuilder& plane, std::string_view prefix, long pair)
      : plane_(plane), correlations_(pair * 10'000'000) {
    for (int i = 0; i < 500; ++i)
      names_.push_back(plane.EventId(std::string(prefix) + "_" + std::to_string(i)));
  }

  // Adds an outer event with `inner` events in it; returns where the next one may begin.
  std::int64_t Add(std::int64_t at_ps, long inner, std::int64_t step, std::mt19937_64& random) {
    const std::int64_t each = 1'000'000 + static_cast<std::int64_t>(random() % 5'000'000);
    plane_.AddEvent(names_[random() % names_.size()], at_ps, each * (inner + 1));
    plane_.AddEventStat(step_, step);
    for (long i = 0; i < inner; ++i) {
      plane_.AddEvent(names_[random() % names_.size()], at_ps + each * i + each / 4, each / 2);
      plane_.AddEventStat(correlation_, static_cast<std::uint64_t>(++correlations_));
      if (i % 2 == 0) plane_.AddEventStat(bytes_, static_cast<std::uint64_t>(random() % 1'000'000));
    }
    return at_ps + each * (inner + 2);
  }

 private:
  PlaneBuilder& plane_;
  std::vector<std::int64_t> names_;
  const std::int64_t step_ = plane_.StatId("group_id"), bytes_ = plane_.StatId("bytes_accessed");
  const std::int64_t correlation_ = plane_.StatId("correlation_id");
  long correlations_;
};

void Fill(PlaneBuilder& plane, std::string_view prefix, int lines, long events, int seed,
          int first_pair) {
  constexpr long kInner = 9;
  std::mt19937_64 random(static_cast<unsigned>(seed));
  for (int line = 0; line < lines; ++line) {
    Row row(plane, prefix, first_pair + line);
    plane.BeginLine(line + 1, std::string(prefix) + " line " + std::to_string(line), 1000);
    std::int64_t at = 0;
    for (long made = 0, step = 0; made < events / lines; made += kInner + 1, ++step)
      at = row.Add(at, kInner, step, random);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "make_xspace EVENTS FILE\n"), 2;
  const long events = std::atol(argv[1]);
  std::ofstream file(argv[2], std::ios::binary);
  for (int gpu = 0; gpu < 4; ++gpu) {
    PlaneBuilder plane(std::string(strobe::xplane::kGpuPrefix) + std::to_string(gpu), gpu);
    Fill(plane, "kernel", 8, events / 8, gpu, 8 * gpu);
    file << plane.Encode();
  }
  PlaneBuilder host(strobe::xplane::kHostPlane);
  Fill(host, "op", 32, events / 2, 99, 0);
  file << host.Encode();
  PlaneBuilder environment(strobe::xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(strobe::xplane::kProfileStart, std::uint64_t{1'790'000'000'000'000'000});
  file << environment.Encode();
  return file ? 0 : 1;
}
