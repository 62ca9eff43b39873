// A small trace as a profiler server would send it, with a start, a stop and, by default, one
// event.
#pragma once
#include <cstdint>
#include <string>

#include "collector/trace/xplane/names.h"
#include "tensorflow/xplane.pb.h"

namespace strobe {

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

}  // namespace strobe
