#include "collector/digest/device_lines.h"

#include <algorithm>
#include <array>

#include "collector/xplane/names.h"

namespace strobe::digest {
namespace {

constexpr std::string_view kOpsLine = "XLA Ops", kAsyncOpsLine = "Async XLA Ops",
                           kModulesLine = "XLA Modules", kStreamLine = "Stream #",
                           kScopesLine = "Framework Name Scope", kSparseOpsLine = "Sparse Core Ops",
                           kSparseModulesLine = "Sparse Core Modules";
constexpr std::array<std::string_view, 9> kOtherLines = {
    "Steps",       "Framework Ops", "Source code",       "Source Code",     "Launch Stats",
    "XLA TraceMe", kModulesLine,    "Sparse Core Steps", kSparseModulesLine};

// "Stream #7(Compute)" is work. "Stream #7 gpu_user_annotation", as collector/kineto names it, is
// not.
LineRole RoleOfStream(std::string_view name) {
  if (!name.starts_with(kStreamLine)) return LineRole::kNone;
  name.remove_prefix(kStreamLine.size());
  const std::size_t behind = name.find_first_not_of("-0123456789");
  if (behind == std::string_view::npos || name[behind] == '(') return LineRole::kWork;
  return name.ends_with(" gpu_user_annotation") ? LineRole::kScopes : LineRole::kNone;
}

}  // namespace

bool IsDevicePlane(const xplane::Plane& plane) {
  return plane.name.starts_with(xplane::kDevicePrefix) &&
         !plane.name.starts_with("/device:CUSTOM:");
}

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

bool DeviceLines::IsAsync(const xplane::Line& line) { return line.name == kAsyncOpsLine; }

LineRole DeviceLines::RoleOf(const xplane::Line& line) const {
  if (line.name == kScopesLine) return LineRole::kScopes;
  if (line.name == xplane::kCounterLine) return LineRole::kNone;
  if (streams_) return RoleOfStream(line.name);
  if (ops_ && line.name == ops_line_) return LineRole::kNestedWork;
  if (ops_) return IsAsync(line) ? LineRole::kWork : LineRole::kNone;
  if (modules_) return line.name == modules_line_ ? LineRole::kWork : LineRole::kNone;
  const bool other =
      std::find(kOtherLines.begin(), kOtherLines.end(), line.name) != kOtherLines.end();
  return other ? LineRole::kNone : LineRole::kWork;
}

bool HasWork(const xplane::Plane& plane) {
  const DeviceLines lines(plane);
  return std::any_of(plane.lines.begin(), plane.lines.end(), [&](const xplane::Line& line) {
    const LineRole role = lines.RoleOf(line);
    return line.events > 0 && (role == LineRole::kWork || role == LineRole::kNestedWork);
  });
}

}  // namespace strobe::digest
