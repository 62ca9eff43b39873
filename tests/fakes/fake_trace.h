// Small traces as a profiler server would send them.
#pragma once
#include <cstdint>
#include <string>

#include "collector/trace/xplane/names.h"
#include "tensorflow/xplane.pb.h"

namespace strobe {

// With a start, a stop and, by default, one event.
inline tensorflow::profiler::XSpace FakeTrace(std::int64_t start_ns, std::int64_t stop_ns,
                                              int events = 1) {
  tensorflow::profiler::XSpace space;
  auto& host = *space.add_planes();
  host.set_name(std::string(xplane::kHostPlane));
  auto& line = *host.add_lines();
  for (int i = 0; i < events; ++i) line.add_events()->set_offset_ps(i);
  auto& environment = *space.add_planes();
  environment.set_name(std::string(xplane::kTaskEnvironmentPlane));
  std::int64_t id = 0;
  for (const auto& [name, value] :
       {std::pair(xplane::kProfileStart, start_ns), std::pair(xplane::kProfileStop, stop_ns)}) {
    auto& metadata = (*environment.mutable_stat_metadata())[++id];
    metadata.set_id(id);
    metadata.set_name(std::string(name));
    auto& stat = *environment.add_stats();
    stat.set_metadata_id(id);
    stat.set_uint64_value(static_cast<std::uint64_t>(value));
  }
  space.add_hostnames("host");
  return space;
}

// Adds a TPU that has an event of a millisecond every ten, from the start on for `ns`.
inline tensorflow::profiler::XPlane& AddFakeTpu(std::int64_t ns,
                                                tensorflow::profiler::XSpace& space) {
  auto& tpu = *space.add_planes();
  tpu.set_name("/device:TPU:0");
  auto& line = *tpu.add_lines();
  line.set_name("XLA Ops");
  for (std::int64_t at = 0; at < ns; at += 10'000'000) {
    auto& event = *line.add_events();
    event.set_offset_ps(at * 1000);
    event.set_duration_ps(1'000'000'000);
  }
  return tpu;
}

}  // namespace strobe
