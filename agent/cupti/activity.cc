#include "agent/cupti/activity.h"

#include <cstddef>

namespace strobe::agent {
namespace {

using wire::RecordType;

using Kernel = CUpti_ActivityKernel9;
using Copy = CUpti_ActivityMemcpy6;
using PeerCopy = CUpti_ActivityMemcpyPtoP4;
using Set = CUpti_ActivityMemset4;
using Memory = CUpti_ActivityMemory4;
using Call = CUpti_ActivityAPI;
using Overhead = CUpti_ActivityOverhead3;
using External = CUpti_ActivityExternalCorrelation;
using Marker = CUpti_ActivityMarker2;
using Graph = CUpti_ActivityGraphTrace2;
#include "agent/cupti/activity_layout.inc"

template <typename T>
const T& As(const CUpti_Activity& record) {
  return reinterpret_cast<const T&>(record);
}

std::uint32_t U32(std::int32_t value) { return static_cast<std::uint32_t>(value); }

wire::KernelRecord FromKernel(const Kernel& from, std::uint32_t name) {
  return {.begin = from.start,
          .end = from.end,
          .device = from.deviceId,
          .context = from.contextId,
          .stream = from.streamId,
          .correlation = from.correlationId,
          .name = name,
          .graph = from.graphId,
          .graph_node = from.graphNodeId,
          .grid = {U32(from.gridX), U32(from.gridY), U32(from.gridZ)},
          .block = {U32(from.blockX), U32(from.blockY), U32(from.blockZ)},
          .static_shared = U32(from.staticSharedMemory),
          .dynamic_shared = U32(from.dynamicSharedMemory),
          .registers = from.registersPerThread,
          .local_memory = from.localMemoryPerThread};
}

// A graph that ran as a whole. Its kernels have no records of their own.
wire::KernelRecord FromGraph(const Graph& from, std::uint32_t name) {
  return {.begin = from.start,
          .end = from.end,
          .device = from.deviceId,
          .context = from.contextId,
          .stream = from.streamId,
          .correlation = from.correlationId,
          .name = name,
          .graph = from.graphId};
}

// Works for both of CUPTI's copy records: copies within a device and copies between two devices
// have different layouts.
template <typename T>
wire::CopyRecord FromCopy(const T& from, std::uint32_t to_device) {
  return {.begin = from.start,
          .end = from.end,
          .bytes = from.bytes,
          .device = from.deviceId,
          .context = from.contextId,
          .stream = from.streamId,
          .correlation = from.correlationId,
          .graph = from.graphId,
          .to_device = to_device,
          .copy_kind = from.copyKind,
          .source_kind = from.srcKind,
          .destination_kind = from.dstKind,
          .flags = from.flags};
}

wire::SetRecord FromSet(const Set& from) {
  return {.begin = from.start,
          .end = from.end,
          .bytes = from.bytes,
          .device = from.deviceId,
          .context = from.contextId,
          .stream = from.streamId,
          .correlation = from.correlationId,
          .graph = from.graphId,
          .value = from.value,
          .memory_kind = from.memoryKind,
          .flags = from.flags};
}

wire::MemoryRecord FromMemory(const Memory& from) {
  return {.time = from.timestamp,
          .bytes = from.bytes,
          .address = from.address,
          .device = from.deviceId,
          .context = from.contextId,
          .stream = from.streamId,
          .correlation = from.correlationId,
          .operation = static_cast<std::uint32_t>(from.memoryOperationType),
          .memory_kind = static_cast<std::uint32_t>(from.memoryKind)};
}

std::uint32_t ThreadOf(const Marker& marker) {
  return marker.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD ? marker.objectId.pt.threadId : 0;
}

}  // namespace

Texts::Written Texts::Write(const char* text, wire::RingWriter& ring) {
  // Bounds the memory. Forgotten texts are written to the ring again.
  if (entries_.size() >= kMax || bytes_ >= kMaxBytes) Forget();
  Entry& known = entries_[text];
  if (known.written.number != 0 && known.text == text) {
    if (ring.position() < known.written.again_at) return known.written;
  } else {
    bytes_ -= known.text.size();
    known.text = text;
    bytes_ += known.text.size();
    known.written.number = ++last_;
  }
  known.written.again_at = ring.position() + again_after_;
  ring.Text(known.written.number, known.text);
  return known.written;
}

std::uint32_t ActivityWriter::Number(const char* text) {
  if (text == nullptr) return 0;
  constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
  const std::uint64_t hash = reinterpret_cast<std::uintptr_t>(text) * kGoldenRatio;
  Name& name = names_[hash >> (64 - kIndexBits)];
  if (name.text != text || ring_.position() >= name.written.again_at)
    name = {text, texts_.Write(text, ring_)};
  return name.written.number;
}

void ActivityWriter::Write(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      const auto& kernel = As<Kernel>(record);
      const std::uint32_t name = Number(kernel.name);
      return ring_.Record(RecordType::kKernel, FromKernel(kernel, name));
    }
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
      const std::uint32_t name = Number("CUDA graph");
      return ring_.Record(RecordType::kKernel, FromGraph(As<Graph>(record), name));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = As<Copy>(record);
      return ring_.Record(RecordType::kCopy, FromCopy(copy, copy.deviceId));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = As<PeerCopy>(record);
      return ring_.Record(RecordType::kCopy, FromCopy(copy, copy.dstDeviceId));
    }
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return ring_.Record(RecordType::kSet, FromSet(As<Set>(record)));
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return ring_.Record(RecordType::kMemory, FromMemory(As<Memory>(record)));
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME: {
      const auto& call = As<Call>(record);
      const auto domain = record.kind == CUPTI_ACTIVITY_KIND_DRIVER ? CUPTI_CB_DOMAIN_DRIVER_API
                                                                    : CUPTI_CB_DOMAIN_RUNTIME_API;
      const std::uint32_t name = Number(call_name_(domain, call.cbid));
      return ring_.Record(RecordType::kCall, wire::CallRecord{.begin = call.start,
                                                              .end = call.end,
                                                              .thread = call.threadId,
                                                              .correlation = call.correlationId,
                                                              .name = name,
                                                              .result = call.returnValue});
    }
    case CUPTI_ACTIVITY_KIND_OVERHEAD: {
      const auto& overhead = As<Overhead>(record);
      return ring_.Record(
          RecordType::kOverhead,
          wire::OverheadRecord{.begin = overhead.start,
                               .end = overhead.end,
                               .kind = static_cast<std::uint32_t>(overhead.overheadKind)});
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& external = As<External>(record);
      return ring_.Record(
          RecordType::kExternal,
          wire::ExternalRecord{.external = external.externalId,
                               .correlation = external.correlationId,
                               .kind = static_cast<std::uint32_t>(external.externalKind)});
    }
    case CUPTI_ACTIVITY_KIND_MARKER: {
      const auto& marker = As<Marker>(record);
      const std::uint32_t name = Number(marker.name);
      const std::uint32_t domain = Number(marker.domain);
      return ring_.Record(RecordType::kMarker,
                          wire::MarkerRecord{.time = marker.timestamp,
                                             .id = marker.id,
                                             .flags = static_cast<std::uint32_t>(marker.flags),
                                             .thread = ThreadOf(marker),
                                             .name = name,
                                             .domain = domain});
    }
    default:
      return;
  }
}

}  // namespace strobe::agent
