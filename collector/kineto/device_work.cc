#include "collector/kineto/device_work.h"

#include <algorithm>
#include <array>

#include "collector/kineto/stats.h"
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
  if (category == "kernel" || category == "concurrent_kernel") return EventKind::kKernel;
  if (category == "gpu_memcpy") return EventKind::kMemcpy;
  if (category == "gpu_memset") return EventKind::kMemset;
  if (category == "gpu_user_annotation" || category == "cuda_sync") return EventKind::kStreamNote;
  // Before PyTorch 1.12.
  if (category == "Kernel") return EventKind::kKernel;
  if (category == "Memcpy") return EventKind::kMemcpy;
  if (category == "Memset") return EventKind::kMemset;
  return EventKind::kHost;
}

bool NamesDevice(const TraceEvent& event) {
  return Find(event, "device") != nullptr || Find(event, "stream") != nullptr;
}

std::uint32_t WorkType(EventKind kind, std::string_view name) {
  if (kind == EventKind::kKernel) return 1;
  if (kind == EventKind::kMemset) return 1 << 6;
  constexpr std::array<std::string_view, 4> kNames = {"HtoD", "DtoH", "DtoD", "PtoP"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (Contains(name, kNames[i])) return 2u << i;
  }
  return 1 << 5;
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
  const std::size_t open = event.name.find('('), arrow = event.name.find(" -> ");
  const std::size_t close = event.name.find(')', arrow);
  const JsonValue* bytes = Find(event, "bytes");
  if (open > arrow || close == std::string_view::npos || bytes == nullptr) return "";
  return StrCat("kind_src:", Lower(event.name.substr(open + 1, arrow - open - 1)),
                " kind_dst:", Lower(event.name.substr(arrow + 4, close - arrow - 4)),
                " size:", bytes->text);
}

}  // namespace strobe::kineto
