#include "sidecar/source/device/device_planes.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"
#include "sidecar/source/device/stream_line.h"

namespace strobe::source {
namespace {

using xplane::PlaneBuilder;
using xplane::Ref;

// XLA reserves this number for the line of CUPTI's own overhead.
constexpr std::int64_t kOverheadLine = static_cast<std::int32_t>(0xdeadbeef) + 6;

// The names of CUpti_ActivityOverheadKind.
std::string_view OverheadName(std::uint32_t kind) {
  switch (kind) {
    case 1:
      return "Driver compiler";
    case 1 << 16:
      return "Buffer flush";
    case 2 << 16:
      return "Instrumentation";
    case 3 << 16:
      return "Resource";
    case 4 << 16:
      return "Runtime triggered module loading";
    case 5 << 16:
      return "Lazy function loading";
    case 6 << 16:
      return "Command buffer full";
    case 7 << 16:
      return "Activity buffer request";
    default:
      return "Overhead";
  }
}

}  // namespace

std::uint32_t DevicePlanes::PlaneOf(const wire::DeviceRecord& device, std::string_view name) {
  const std::string uuid(reinterpret_cast<const char*>(device.uuid), sizeof device.uuid);
  for (auto& [number, plane] : planes_) {
    if (plane.uuid == uuid) return number;
  }
  std::uint32_t number = device.ordinal;
  while (planes_.contains(number)) ++number;
  const auto [it, fresh] = planes_.emplace(
      number, Plane{uuid, device, PlaneBuilder(StrCat(xplane::kGpuPrefix, number), number)});
  PlaneBuilder& plane = it->second.builder;
  plane.AddPlaneStat("device_vendor", Ref{"Nvidia"});
  plane.AddPlaneStat("gpu_device_name", Ref{name});
  plane.AddPlaneStat("clock_rate", std::uint64_t{device.clock_khz});
  plane.AddPlaneStat("core_count", std::uint64_t{device.cores});
  plane.AddPlaneStat("memory_bandwidth",
                     std::uint64_t{device.memory_clock_khz} * 1000 * 2 * device.bus_bits / 8);
  plane.AddPlaneStat("memory_size", device.memory);
  plane.AddPlaneStat("compute_cap_major", std::uint64_t{device.major});
  plane.AddPlaneStat("compute_cap_minor", std::uint64_t{device.minor});
  return number;
}

std::map<std::uint32_t, std::vector<HostCall>> DevicePlanes::Add(const DeviceTrace& trace) {
  const DeviceActivity& activity = trace.activity;
  std::map<std::uint32_t, std::vector<HostCall>> calls;
  if (!trace.clock.is_known()) return calls;

  std::map<std::uint32_t, std::uint32_t> planes;  // Keyed by the program's ordinals.
  for (const wire::DeviceRecord& device : activity.devices)
    planes.emplace(device.ordinal, PlaneOf(device, activity.Text(device.name)));
  AddStreams(trace, planes);
  AddRanges(trace);

  struct LaunchSite {
    std::uint32_t device, context;
  };
  absl::flat_hash_map<std::uint32_t, LaunchSite> launched;
  const auto note = [&](const auto& records) {
    for (const auto& record : records) {
      const auto plane = planes.find(record.device);
      if (plane != planes.end())
        launched.emplace(record.correlation, LaunchSite{plane->second, record.context});
    }
  };
  note(activity.kernels);
  note(activity.copies);
  note(activity.sets);
  for (const wire::CallRecord& call : activity.calls) {
    HostCall host{.begin_ps = trace.scale.Ps(trace.clock.Ticks(call.begin)),
                  .end_ps = trace.scale.Ps(trace.clock.Ticks(call.end)),
                  .name = activity.Text(call.name)};
    if (host.begin_ps < 0 || host.end_ps > length_ps_ || host.end_ps < host.begin_ps) continue;
    if (const auto place = launched.find(call.correlation); place != launched.end()) {
      host.correlation = programs_ << 32 | call.correlation;
      host.device = place->second.device;
      host.context = place->second.context;
    }
    calls[call.thread].push_back(host);
  }
  for (auto& [thread, list] : calls) {
    std::sort(list.begin(), list.end(), [](const HostCall& a, const HostCall& b) {
      return a.begin_ps != b.begin_ps ? a.begin_ps < b.begin_ps : a.end_ps > b.end_ps;
    });
  }
  ++programs_;
  return calls;
}

void DevicePlanes::AddStreams(const DeviceTrace& trace,
                              const std::map<std::uint32_t, std::uint32_t>& planes) {
  const DeviceActivity& activity = trace.activity;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<StreamWork>> streams;
  const auto add = [&](std::uint32_t device, std::uint32_t stream, std::uint64_t begin,
                       std::uint64_t end, StreamWork::Type type, std::size_t index) {
    const auto plane = planes.find(device);
    // Work that was still running when recording ended has no end time.
    if (plane == planes.end() || begin == 0 || end < begin) return;
    const StreamWork work{.begin_ps = trace.scale.Ps(trace.clock.Ticks(begin)),
                          .end_ps = trace.scale.Ps(trace.clock.Ticks(end)),
                          .type = type,
                          .index = static_cast<std::uint32_t>(index)};
    if (work.begin_ps < 0 || work.end_ps > length_ps_ || work.end_ps < work.begin_ps) return;
    streams[{plane->second, stream}].push_back(work);
  };
  for (std::size_t i = 0; i < activity.kernels.size(); ++i) {
    const wire::KernelRecord& kernel = activity.kernels[i];
    add(kernel.device, kernel.stream, kernel.begin, kernel.end, StreamWork::kCompute, i);
  }
  for (std::size_t i = 0; i < activity.copies.size(); ++i) {
    const wire::CopyRecord& copy = activity.copies[i];
    add(copy.device, copy.stream, copy.begin, copy.end, StreamWork::CopyType(copy.copy_kind), i);
  }
  for (std::size_t i = 0; i < activity.sets.size(); ++i) {
    const wire::SetRecord& set = activity.sets[i];
    add(set.device, set.stream, set.begin, set.end, StreamWork::kMemset, i);
  }
  for (std::size_t i = 0; i < activity.memory.size(); ++i) {
    const wire::MemoryRecord& memory = activity.memory[i];
    if (memory.operation != 1 && memory.operation != 2) continue;
    add(memory.device, memory.stream, memory.time, memory.time,
        memory.operation == 1 ? StreamWork::kMemoryAlloc : StreamWork::kMemoryFree, i);
  }
  const StreamLabels labels(activity);
  for (const auto& [ordinal, number] : planes) ++planes_.at(number).programs;
  for (auto& [place, works] : streams) {
    const auto& [number, stream] = place;
    Plane& plane = planes_.at(number);
    // Streams of different programs on the same device may have the same number.
    const std::int64_t line =
        static_cast<std::int64_t>((plane.programs - 1) << 32) | static_cast<std::int64_t>(stream);
    AddStreamLine({.activity = activity,
                   .labels = labels,
                   .device = plane.device,
                   .line = line,
                   .stream = stream,
                   .correlation_base = programs_ << 32,
                   .label = trace.label},
                  works, plane.builder);
  }

  if (activity.overheads.empty() || planes.empty()) return;
  PlaneBuilder& builder = planes_.at(planes.begin()->second).builder;
  builder.BeginLine(kOverheadLine, "CUPTI overhead", 0);
  for (const wire::OverheadRecord& overhead : activity.overheads) {
    const std::int64_t begin = trace.scale.Ps(trace.clock.Ticks(overhead.begin));
    const std::int64_t end = trace.scale.Ps(trace.clock.Ticks(overhead.end));
    if (begin < 0 || end > length_ps_ || end < begin) continue;
    builder.AddEvent(builder.EventId(OverheadName(overhead.kind)), begin, end - begin);
  }
}

void DevicePlanes::AddRanges(const DeviceTrace& trace) {
  const DeviceActivity& activity = trace.activity;
  struct Range {
    std::int64_t begin_ps, end_ps;
    std::uint32_t name, domain;
  };
  constexpr std::uint32_t kMark = 1, kBegins = 2, kEnds = 4;
  absl::flat_hash_map<std::uint32_t, const wire::MarkerRecord*> open;
  std::map<std::uint32_t, std::vector<Range>> threads;
  const auto at = [&](const wire::MarkerRecord& marker) {
    return trace.scale.Ps(trace.clock.Ticks(marker.time));
  };
  const auto add = [&](const wire::MarkerRecord& from, std::int64_t begin, std::int64_t end) {
    if (begin < 0 || end > length_ps_ || end < begin) return;
    threads[from.thread].push_back({begin, end, from.name, from.domain});
  };
  // Beginnings and ends arrive in the order of their times, but not always in the same buffer.
  for (const wire::MarkerRecord& marker : activity.markers) {
    if ((marker.flags & kBegins) != 0) open[marker.id] = &marker;
    if ((marker.flags & kMark) != 0) add(marker, at(marker), at(marker));
  }
  for (const wire::MarkerRecord& marker : activity.markers) {
    if ((marker.flags & kEnds) == 0) continue;
    if (const auto begun = open.find(marker.id); begun != open.end())
      add(*begun->second, at(*begun->second), at(marker));
  }
  for (auto& [thread, ranges] : threads) {
    has_ranges_ = true;
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
      return std::tie(a.begin_ps, b.end_ps) < std::tie(b.begin_ps, a.end_ps);
    });
    ranges_.BeginLine(static_cast<std::int64_t>(programs_ << 32 | thread),
                      StrCat(trace.label, trace.label.empty() ? "" : " ", thread), 0);
    const std::int64_t domain = ranges_.StatId("nvtx_domain");
    for (const Range& range : ranges) {
      ranges_.AddEvent(ranges_.EventId(activity.Text(range.name)), range.begin_ps,
                       range.end_ps - range.begin_ps);
      if (range.domain != 0) ranges_.AddEventStat(domain, Ref{activity.Text(range.domain)});
    }
  }
}

std::string DevicePlanes::Encode() {
  std::string fields;
  for (auto& [number, plane] : planes_) fields += plane.builder.Encode();
  if (has_ranges_) fields += ranges_.Encode();
  fields += collectives_.Encode();
  return fields;
}

}  // namespace strobe::source
