// What PyTorch's Kineto writes about GPUs, in the terms of XLA, which XProf's tools look for.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "collector/trace/kineto/trace_event.h"

namespace strobe::kineto {

// The kind of an event, by its category.
enum class EventKind : std::uint8_t {
  kHost,
  kKernel,
  kMemcpy,
  kMemset,
  kStreamNote,  // Something about a stream that is no work of it: an annotation, a wait.
};
EventKind KindOfCategory(std::string_view category);

inline bool IsWork(EventKind kind) {
  return kind == EventKind::kKernel || kind == EventKind::kMemcpy || kind == EventKind::kMemset;
}

// Whether the event says on which device or stream it ran, as Kineto's work on devices does, or is
// of a category that only devices have. Other programs use "kernel" for their own events.
bool NamesDevice(const TraceEvent& event);

// What an event of a category that is not known as a device's tells of where it ran. Devices beside
// GPUs have categories of their own, or none.
enum class DeviceSign : std::uint8_t {
  kNone,
  kHost,             // It ran on the host.
  kNamesDevice,      // It ran on a device, if its process is one.
  kTask,             // A task of an Ascend NPU. Its type is AI_CORE, MEMCPY_ASYNC, ...
  kTaskWithoutWork,  // A task that only waits or notes a time.
  kCollective,       // A collective of Ascend NPUs. They are in a process of their own.
};
DeviceSign SignOf(const TraceEvent& event);
// Whether the signs of a line, as bits, are those of a device, as far as events tell.
bool SeemsDevices(std::uint32_t signs);

// What a kernel is by its name: AMD's copies and fills have the category of kernels, and so have
// those of MTIA.
EventKind KindOfWork(EventKind kind, const TraceEvent& event);

// "Memcpy HtoD (Pinned -> Device)": 1 << the number of "MemcpyH2D" among XLA's types of work.
std::uint32_t WorkType(EventKind kind, std::string_view name);
// The number of a stream whose thread this is: before PyTorch 1.12 it is called "stream 7".
std::string_view StreamNumber(std::string_view thread);
// "Stream #7(Compute,MemcpyH2D)"
std::string StreamName(std::string_view stream, std::uint32_t work_types);

// "regs:32 static_shared:0 ... block:128,1,1"; empty if the event does not tell the grid and block.
// Kineto has the sum of static and dynamic shared memory only, which is given as the static one.
std::string KernelDetails(const TraceEvent& event);
// Is the argument a part of the details, so that it needs no stat of its own?
bool InKernelDetails(const Member& arg);
// "kind_src:pinned kind_dst:device size:4096"; empty if the event does not tell.
std::string MemcpyDetails(const TraceEvent& event);

}  // namespace strobe::kineto
