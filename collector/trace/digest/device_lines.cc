#include "collector/trace/digest/device_lines.h"

#include <algorithm>
#include <array>

#include "collector/trace/xplane/device_names.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"

namespace strobe::digest {
namespace {

constexpr std::string_view kOpsLine = "XLA Ops", kAsyncOpsLine = "Async XLA Ops",
                           kModulesLine = "XLA Modules", kStreamLine = "Stream #",
                           kScopesLine = "Framework Name Scope", kSparseOpsLine = "Sparse Core Ops",
                           kSparseModulesLine = "Sparse Core Modules";
constexpr std::array<std::string_view, 9> kOtherLines = {
    "Steps",       "Framework Ops", "Source code",       "Source Code",     "Launch Stats",
    "XLA TraceMe", kModulesLine,    "Sparse Core Steps", kSparseModulesLine};

// "Stream #7(Compute)" is work. "Stream #7 gpu_user_annotation", as collector/trace/kineto names
// it, is not.
LineRole RoleOfStream(std::string_view name) {
  if (!name.starts_with(kStreamLine)) return LineRole::kNone;
  name.remove_prefix(kStreamLine.size());
  const std::size_t behind = name.find_first_not_of("-0123456789");
  if (behind == std::string_view::npos || name[behind] == '(') return LineRole::kWork;
  if (Contains(name, "(Compute") || Contains(name, "(Mem")) return LineRole::kWork;
  return name.ends_with(" gpu_user_annotation") ? LineRole::kScopes : LineRole::kNone;
}

// Whether a member of Kineto's files tells of a device: its properties, the name of a process, the
// library with which ranks talk.
bool IsSignOfDevice(std::string_view name, std::string_view text) {
  if (name == "deviceProperties") return Contains(text, "{");
  if (name == "process_labels") {
    constexpr std::string_view kLabels = "labels=";
    const std::size_t at = text.find(kLabels);
    const std::string_view label =
        at == std::string_view::npos ? "" : text.substr(at + kLabels.size());
    // Kineto calls the first sixteen numbers GPUs, also where none is.
    constexpr std::array<std::string_view, 7> kDevices = {"MTIA", "NPU", "HPU", "XPU",
                                                          "MLU",  "TPU", "GCU"};
    return std::any_of(kDevices.begin(), kDevices.end(),
                       [&](std::string_view device) { return label.starts_with(device); });
  }
  if (name != "distributedInfo") return false;
  constexpr std::array<std::string_view, 4> kLibraries = {"nccl", "hccl", "xccl", "cncl"};
  return std::any_of(kLibraries.begin(), kLibraries.end(),
                     [&](std::string_view library) { return Contains(text, library); });
}

bool IsRuntime(std::string_view category) {
  constexpr std::array<std::string_view, 8> kVendors = {"cuda", "hip", "xpu",  "mtia",
                                                        "mlu",  "gcu", "glow", "privateuse1"};
  return xplane::IsRuntimeCategory(category) &&
         (category == "Runtime" ||
          std::any_of(kVendors.begin(), kVendors.end(),
                      [&](std::string_view vendor) { return category.starts_with(vendor); }));
}

// Categories of what Kineto's plugins for Gaudi and MTIA record.
bool IsCategoryOfDevice(std::string_view category) {
  return category == "hpu_op" || category == "mtia_ccp_events" || category == "mtia_insight" ||
         category == "async_npu";
}

}  // namespace

bool IsSparseCore(std::string_view device) {
  return device.find(" SparseCore ") != std::string_view::npos;
}

DeviceLines::DeviceLines(const xplane::Plane& plane)
    : ops_line_(IsSparseCore(plane.name) ? kSparseOpsLine : kOpsLine),
      modules_line_(IsSparseCore(plane.name) ? kSparseModulesLine : kModulesLine) {
  for (const xplane::Line& line : plane.lines) {
    if (line.events == 0) continue;
    streams_ = streams_ || RoleOfStream(line.name) == LineRole::kWork;
    ops_ = ops_ || line.name == ops_line_;
    modules_ = modules_ || line.name == modules_line_;
    async_ = async_ || line.name == kAsyncOpsLine;
  }
}

bool DeviceLines::IsAsync(std::string_view line) { return line == kAsyncOpsLine; }

LineRole DeviceLines::RoleOf(std::string_view line) const {
  if (line == kScopesLine) return LineRole::kScopes;
  if (line == xplane::kCounterLine) return LineRole::kNone;
  if (streams_) return RoleOfStream(line);
  if (ops_ && line == ops_line_) return LineRole::kNestedWork;
  if (ops_) return IsAsync(line) ? LineRole::kWork : LineRole::kNone;
  if (modules_) return line == modules_line_ ? LineRole::kWork : LineRole::kNone;
  const bool other = std::find(kOtherLines.begin(), kOtherLines.end(), line) != kOtherLines.end();
  return other ? LineRole::kNone : LineRole::kWork;
}

bool DeviceLines::IsWork(std::string_view line) const {
  const LineRole role = RoleOf(line);
  return role == LineRole::kWork || role == LineRole::kNestedWork;
}

bool TellsOfDevice(const xplane::Space& space) {
  bool tells = false;
  for (const xplane::Plane& plane : space.planes) {
    if (plane.name == xplane::kTaskEnvironmentPlane) {
      // A damaged stat tells nothing.
      (void)plane.ForEachStat([&](const xplane::Stat& stat) {
        const auto* text = std::get_if<std::string_view>(&stat.value);
        if (text != nullptr) tells = tells || IsSignOfDevice(plane.NameOf(stat), *text);
      });
    } else if (plane.name == xplane::kCollectivesPlane) {
      tells = true;  // Their library works on devices only.
    } else if (xplane::MayHaveThreads(plane.name)) {
      // Calls of a device's runtime. Categories are among the names, because events refer to them.
      const bool correlates = plane.StatId("correlation_id") != 0;
      tells = tells ||
              std::any_of(plane.stat_names.begin(), plane.stat_names.end(), [&](const auto& entry) {
                return (correlates && IsRuntime(entry.second)) || IsCategoryOfDevice(entry.second);
              });
    }
  }
  return tells;
}

bool HasWork(const xplane::Plane& plane) {
  const DeviceLines lines(plane);
  return std::any_of(plane.lines.begin(), plane.lines.end(), [&](const xplane::Line& line) {
    return line.events > 0 && lines.IsWork(line.name);
  });
}

}  // namespace strobe::digest
