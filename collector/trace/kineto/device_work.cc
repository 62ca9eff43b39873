#include "collector/trace/kineto/device_work.h"

#include <algorithm>
#include <array>

#include "collector/trace/kineto/stats.h"
#include "collector/trace/xplane/device_names.h"
#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

// XLA's types of work. The index of a type is the number of its bit.
constexpr std::array<std::string_view, 7> kTypes = {
    "Compute", "MemcpyH2D", "MemcpyD2H", "MemcpyD2D", "MemcpyP2P", "MemcpyOther", "Memset"};

const JsonValue* Find(const TraceEvent& event, std::string_view key) {
  for (const Member& arg : event.args) {
    if (arg.key == key) return &arg.value;
  }
  return nullptr;
}

// Returns "1,2,3" for "[1, 2, 3]", a list or a text; empty for any other value.
std::string Dimensions(const JsonValue* value) {
  if (value == nullptr || value->text.size() > 128) return "";
  const std::optional<std::vector<std::uint64_t>> sizes = NaturalsIn(value->text, 3);
  if (!sizes || sizes->size() != 3) return "";
  return StrCat((*sizes)[0], ",", (*sizes)[1], ",", (*sizes)[2]);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

}  // namespace

EventKind KindOfCategory(std::string_view category) {
  // "Kernel" is from before PyTorch 1.12.
  if (category == "kernel" || category == "concurrent_kernel" || category == "Kernel" ||
      category == "mtia_ccp_events")
    return EventKind::kKernel;
  switch (xplane::MemoryWorkOfCategory(category)) {
    case xplane::MemoryWork::kNone:
      break;
    case xplane::MemoryWork::kFill:
      return EventKind::kMemset;
    default:
      return EventKind::kMemcpy;
  }
  // "gpu_user_annotation", "mlu_user_annotation", "GCU_USER_ANNOTATION"; not "user_annotation".
  const bool annotation =
      category.ends_with("_user_annotation") || category.ends_with("_USER_ANNOTATION");
  if (annotation || category == "cuda_sync" || category == "gcu_sync" || category == "xpu_sync" ||
      category == "cuda_event")
    return EventKind::kStreamNote;
  return EventKind::kHost;
}

bool NamesDevice(const TraceEvent& event) {
  // No other program has these categories.
  if (event.category == "mtia_ccp_events" || event.category == "gpu_memcpy" ||
      event.category == "gpu_memset")
    return true;
  return Find(event, "device") != nullptr || Find(event, "stream") != nullptr;
}

EventKind KindOfWork(EventKind kind, const TraceEvent& event) {
  if (kind != EventKind::kKernel) return kind;
  const JsonValue* direction = Find(event, "direction");
  const xplane::MemoryWork told =
      direction == nullptr ? xplane::MemoryWork::kNone : xplane::MemoryWorkOf(direction->text);
  const xplane::MemoryWork work =
      told == xplane::MemoryWork::kNone ? xplane::MemoryWorkOf(event.name) : told;
  if (work == xplane::MemoryWork::kNone) return kind;
  return work == xplane::MemoryWork::kFill ? EventKind::kMemset : EventKind::kMemcpy;
}

std::uint32_t WorkType(EventKind kind, std::string_view name) {
  if (kind == EventKind::kKernel) return 1;
  if (kind == EventKind::kMemset) return 1 << 6;
  switch (xplane::MemoryWorkOf(name)) {
    case xplane::MemoryWork::kHostToDevice:
      return 1 << 1;
    case xplane::MemoryWork::kDeviceToHost:
      return 1 << 2;
    case xplane::MemoryWork::kDeviceToDevice:
      return 1 << 3;
    case xplane::MemoryWork::kPeerToPeer:
      return 1 << 4;
    default:
      return 1 << 5;
  }
}

std::string_view StreamNumber(std::string_view thread) {
  constexpr std::string_view kStream = "stream ";
  return thread.starts_with(kStream) ? thread.substr(kStream.size()) : thread;
}

std::string StreamName(std::string_view stream, std::uint32_t work_types) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if ((work_types >> i & 1) != 0) names.emplace_back(kTypes[i]);
  }
  return StrCat("Stream #", stream, "(", Join(names, ","), ")");
}

std::string KernelDetails(const TraceEvent& event) {
  const std::string grid = Dimensions(Find(event, "grid"));
  const std::string block = Dimensions(Find(event, "block"));
  if (grid.empty() || block.empty()) return "";
  const auto number = [&](std::string_view key) -> std::int64_t {
    const JsonValue* value = Find(event, key);
    return value == nullptr ? 0 : IntegerOf(*value).value_or(0);
  };
  std::string details =
      StrCat("regs:", number("registers per thread"), " static_shared:", number("shared memory"),
             " dynamic_shared:0 grid:", grid, " block:", block);
  if (const JsonValue* occupancy = Find(event, "est. achieved occupancy %"))
    details += StrCat(" occ_pct:", occupancy->text);
  return details;
}

bool InKernelDetails(const Member& arg) {
  return arg.key == "grid" || arg.key == "block" ||
         (arg.key == "registers per thread" && IntegerOf(arg.value));
}

std::string MemcpyDetails(const TraceEvent& event) {
  const JsonValue* bytes = Find(event, "bytes");
  if (bytes == nullptr) bytes = Find(event, "size");
  if (bytes == nullptr) return "";
  std::string from, to;
  const std::size_t open = event.name.find('('), arrow = event.name.find(" -> ");
  const std::size_t close = event.name.find(')', arrow);
  if (open <= arrow && close != std::string_view::npos) {
    from = Lower(event.name.substr(open + 1, arrow - open - 1));
    to = Lower(event.name.substr(arrow + 4, close - arrow - 4));
  } else {
    const xplane::MemoryWork work = xplane::MemoryWorkOf(event.name);
    if (work == xplane::MemoryWork::kNone || work == xplane::MemoryWork::kOtherCopy) return "";
    from = work == xplane::MemoryWork::kHostToDevice ? "host" : "device";
    to = work == xplane::MemoryWork::kDeviceToHost ? "host" : "device";
  }
  return StrCat("kind_src:", from, " kind_dst:", to, " size:", bytes->text);
}

bool IsOfHost(std::string_view category) {
  constexpr std::array<std::string_view, 7> kHosts = {
      "cpu_op", "user_annotation", "python_function", "cpu_instant_event", "overhead", "Operator",
      "Trace"};
  return std::find(kHosts.begin(), kHosts.end(), category) != kHosts.end() ||
         xplane::IsRuntimeCategory(category);
}

DeviceSign SignOf(const TraceEvent& event) {
  if (IsOfHost(event.category)) return DeviceSign::kHost;
  if (const JsonValue* task = Find(event, "Task Type")) {
    const std::string_view type = task->text;
    for (const std::string_view idle : {"WAIT", "RECORD", "PLACE_HOLDER", "PROFILING"}) {
      if (Contains(type, idle)) return DeviceSign::kTaskWithoutWork;
    }
    return DeviceSign::kTask;
  }
  if (event.name.starts_with("hcom_")) return DeviceSign::kCollective;
  const bool works = KindOfCategory(event.category) != EventKind::kHost;
  return works || NamesDevice(event) ? DeviceSign::kNamesDevice : DeviceSign::kNone;
}

bool SeemsDevices(std::uint32_t signs) {
  const auto bit = [](DeviceSign sign) { return 1u << static_cast<unsigned>(sign); };
  return (signs & bit(DeviceSign::kHost)) == 0 &&
         (signs & (bit(DeviceSign::kNamesDevice) | bit(DeviceSign::kTask))) != 0;
}

}  // namespace strobe::kineto
