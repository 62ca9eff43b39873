#include "sidecar/source/device/stream_line.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <tuple>

#include "common/base/strings.h"

namespace strobe::source {
namespace {

// Registers are allocated per warp in portions of this size.
constexpr std::uint64_t kRegistersTogether = 256;
// Each scheduler of a core has its own quarter of the registers.
constexpr std::uint64_t kSchedulers = 4;

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

using xplane::PlaneBuilder;
using xplane::Ref;
using xplane::RefId;

// The names of the types, in the order of their bits.
constexpr std::array<std::string_view, 9> kTypeNames = {"Compute",   "MemcpyH2D",   "MemcpyD2H",
                                                        "MemcpyD2D", "MemcpyP2P",   "MemcpyOther",
                                                        "Memset",    "MemoryAlloc", "MemoryFree"};

std::string_view TypeName(StreamWork::Type type) {
  return kTypeNames[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint32_t>(type)))];
}

// The names of CUpti_ActivityMemoryKind.
std::string_view MemoryName(std::uint32_t kind) {
  constexpr std::array<std::string_view, 8> kNames = {"unknown",       "pageable",      "pinned",
                                                      "device",        "array",         "managed",
                                                      "device_static", "managed_static"};
  return kind < kNames.size() ? kNames[kind] : kNames[0];
}

std::string Demangled(std::string_view name) {
  int status = 0;
  const std::string mangled(name);
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : mangled;
  std::free(text);
  return result;
}

std::string KernelDetails(const wire::KernelRecord& kernel, const wire::DeviceRecord& device) {
  return StrCat("regs:", kernel.registers, " static_shared:", kernel.static_shared,
                " dynamic_shared:", kernel.dynamic_shared, " grid:", kernel.grid[0], ",",
                kernel.grid[1], ",", kernel.grid[2], " block:", kernel.block[0], ",",
                kernel.block[1], ",", kernel.block[2],
                " occ_pct:", OccupancyPercent(kernel, device));
}

std::string LineName(std::uint32_t stream, std::uint32_t types, std::string_view label) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kTypeNames.size(); ++i) {
    if ((types >> i & 1) != 0) names.emplace_back(kTypeNames[i]);
  }
  return StrCat("Stream #", stream, "(", Join(names, ","), ")", label.empty() ? "" : " ", label);
}

// Writes events. Caches the metadata of names, because a stream may have millions of events with
// few names.
class Writer {
 public:
  Writer(const StreamLine& line, PlaneBuilder& plane)
      : line_(line),
        plane_(plane),
        correlation_(plane.StatId("correlation_id")),
        context_(plane.StatId("context_id")),
        kernel_details_(plane.StatId("kernel_details")) {}

  void Write(const StreamWork& work) {
    const DeviceActivity& activity = line_.activity;
    switch (work.type) {
      case StreamWork::kCompute:
        return Kernel(work, activity.kernels[work.index]);
      case StreamWork::kMemset:
        return Set(work, activity.sets[work.index]);
      case StreamWork::kMemoryAlloc:
      case StreamWork::kMemoryFree:
        return Memory(work, activity.memory[work.index]);
      default:
        return Copy(work, activity.copies[work.index]);
    }
  }

 private:
  void Begin(const StreamWork& work, std::int64_t event, std::uint32_t correlation,
             std::uint32_t context) {
    plane_.AddEvent(event, work.begin_ps, work.end_ps - work.begin_ps);
    plane_.AddEventStat(correlation_, line_.correlation_base | correlation);
    const auto [known, fresh] = contexts_.try_emplace(context);
    if (fresh) known->second = plane_.StatId(StrCat("$$", context));
    plane_.AddEventStat(context_, RefId{known->second});
    if (const std::uint64_t* external = line_.labels.External(correlation))
      plane_.AddEventStat(plane_.StatId("external_id"), *external);
  }
  void Kernel(const StreamWork& work, const wire::KernelRecord& kernel) {
    const auto [name, fresh] = kernel_names_.try_emplace(kernel.name);
    if (fresh) name->second = plane_.EventId(Demangled(line_.activity.Text(kernel.name)));
    Begin(work, name->second, kernel.correlation, kernel.context);
    const Shape shape = {kernel.grid[0],       kernel.grid[1],        kernel.grid[2],
                         kernel.block[0],      kernel.block[1],       kernel.block[2],
                         kernel.static_shared, kernel.dynamic_shared, kernel.registers};
    // A CUDA graph that was recorded as a whole has no shape, and is no kernel to XProf.
    if (kernel.grid[0] > 0) {
      const auto [details, unknown] = shapes_.try_emplace(shape);
      if (unknown) details->second = plane_.StatId(KernelDetails(kernel, line_.device));
      plane_.AddEventStat(kernel_details_, RefId{details->second});
    }
    if (kernel.graph != 0)
      plane_.AddEventStat(plane_.StatId("cuda_graph_id"), std::uint64_t{kernel.graph});
  }
  void Copy(const StreamWork& work, const wire::CopyRecord& copy) {
    Begin(work, plane_.EventId(TypeName(work.type)), copy.correlation, copy.context);
    Detail("memcpy_details", StrCat("kind_src:", MemoryName(copy.source_kind), " kind_dst:",
                                    MemoryName(copy.destination_kind), " size:", copy.bytes,
                                    " dest:", copy.to_device, " async:", copy.flags & 1));
  }
  void Set(const StreamWork& work, const wire::SetRecord& set) {
    Begin(work, plane_.EventId(TypeName(work.type)), set.correlation, set.context);
    Detail("Memset_details", StrCat("kind:", MemoryName(set.memory_kind), " num_bytes:", set.bytes,
                                    " async:", set.flags & 1));
  }
  void Memory(const StreamWork& work, const wire::MemoryRecord& memory) {
    Begin(work, plane_.EventId(TypeName(work.type)), memory.correlation, memory.context);
    Detail(work.type == StreamWork::kMemoryAlloc ? "memalloc_details" : "MemFree_details",
           StrCat("kind:", MemoryName(memory.memory_kind), " num_bytes:", memory.bytes));
  }
  void Detail(std::string_view stat, const std::string& text) {
    plane_.AddEventStat(plane_.StatId(stat), Ref{text});
  }

  using Shape = std::array<std::uint32_t, 9>;  // All values of which a kernel's details consist.

  const StreamLine& line_;
  PlaneBuilder& plane_;
  const std::int64_t correlation_, context_, kernel_details_;
  absl::flat_hash_map<std::uint32_t, std::int64_t> kernel_names_, contexts_;
  std::map<Shape, std::int64_t> shapes_;
};

}  // namespace

double OccupancyPercent(const wire::KernelRecord& kernel, const wire::DeviceRecord& device) {
  if (device.warp == 0 || device.threads < device.warp) return 0;
  const std::uint64_t threads =
      static_cast<std::uint64_t>(kernel.block[0]) * kernel.block[1] * kernel.block[2];
  if (threads == 0 || threads > device.threads) return 0;
  const std::uint64_t warps = RoundUp(threads, device.warp) / device.warp;
  const std::uint64_t max_warps = device.threads / device.warp;
  std::uint64_t blocks = std::min<std::uint64_t>(max_warps / warps, device.blocks);
  if (kernel.registers > 0) {
    const std::uint64_t per_warp =
        RoundUp(static_cast<std::uint64_t>(kernel.registers) * device.warp, kRegistersTogether);
    const std::uint64_t by_registers =
        device.registers / kSchedulers / per_warp * kSchedulers / warps;
    blocks = std::min(blocks, by_registers);
  }
  // Used by the CUDA runtime, per block.
  const std::uint64_t reserved = device.major >= 8 ? 1024 : 0;
  const std::uint64_t portion = device.major >= 8 ? 128 : 256;
  const std::uint64_t shared = RoundUp(
      static_cast<std::uint64_t>(kernel.static_shared) + kernel.dynamic_shared + reserved, portion);
  if (shared > 0) blocks = std::min(blocks, device.shared / shared);
  return 100.0 * static_cast<double>(blocks * warps) / static_cast<double>(max_warps);
}

StreamWork::Type StreamWork::CopyType(std::uint8_t kind) {
  // CUPTI_ACTIVITY_MEMCPY_KIND_*.
  constexpr std::uint8_t kHtoD = 1, kDtoH = 2, kDtoD = 8, kPtoP = 10;
  switch (kind) {
    case kHtoD:
      return kMemcpyH2D;
    case kDtoH:
      return kMemcpyD2H;
    case kDtoD:
      return kMemcpyD2D;
    case kPtoP:
      return kMemcpyP2P;
    default:
      return kMemcpyOther;
  }
}

StreamLabels::StreamLabels(const DeviceActivity& activity) {
  for (const wire::ExternalRecord& record : activity.externals)
    externals_[record.correlation] = record.external;
}

const std::uint64_t* StreamLabels::External(std::uint32_t correlation) const {
  if (externals_.empty()) return nullptr;
  const auto found = externals_.find(correlation);
  return found == externals_.end() ? nullptr : &found->second;
}

void AddStreamLine(const StreamLine& line, std::vector<StreamWork>& works, PlaneBuilder& plane) {
  std::sort(works.begin(), works.end(), [](const StreamWork& a, const StreamWork& b) {
    return std::tie(a.begin_ps, b.end_ps) < std::tie(b.begin_ps, a.end_ps);
  });
  std::uint32_t types = 0;
  for (const StreamWork& work : works) types |= work.type;
  plane.BeginLine(line.line, LineName(line.stream, types, line.label), 0);
  Writer writer(line, plane);
  for (const StreamWork& work : works) writer.Write(work);
}

}  // namespace strobe::source
