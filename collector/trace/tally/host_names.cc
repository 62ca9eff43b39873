#include "collector/trace/tally/host_names.h"

#include "collector/trace/xplane/device_names.h"
#include "common/base/status_macros.h"

namespace strobe::tally {
namespace {

// "cudaLaunchKernel", "cuLaunchKernel", "hipLaunchKernel".
bool IsRuntimeCall(std::string_view name) {
  if (name.starts_with("cuda") || name.starts_with("hip")) return true;
  return name.size() > 2 && name.starts_with("cu") && name[2] >= 'A' && name[2] <= 'Z';
}

}  // namespace

std::string_view HostKindName(HostKind kind) {
  switch (kind) {
    case HostKind::kOperator:
      return "operator";
    case HostKind::kAnnotation:
      return "annotation";
    case HostKind::kRuntime:
      return "runtime";
    case HostKind::kModule:
      return "module";
    case HostKind::kPython:
      return "Python";
    case HostKind::kNone:
      break;
  }
  return "other";
}

HostKind HostKindOf(std::string_view name, std::string_view category) {
  if (category == "cpu_op" || category == "Operator") return HostKind::kOperator;
  if (category == "user_annotation") return HostKind::kAnnotation;
  if (xplane::IsRuntimeCategory(category)) return HostKind::kRuntime;
  if (category == "python_function")
    return name.starts_with("nn.Module: ") ? HostKind::kModule : HostKind::kPython;
  if (!category.empty()) return HostKind::kNone;
  // Kineto's marks of its own recording have no category.
  if (name.starts_with("Iteration Start: ") || name == "Record Window End") return HostKind::kNone;
  // XLA's tracer of Python writes "$file.py:12 function".
  if (name.starts_with('$')) return HostKind::kPython;
  return IsRuntimeCall(name) ? HostKind::kRuntime : HostKind::kOperator;
}

absl::StatusOr<HostKind> ReadHostKind(const Source& source, const index::Row& row,
                                      const index::Entry& entry) {
  const xplane::Plane* plane = source.PlaneOf(row);
  if (plane == nullptr) return absl::DataLossError("the index does not fit the trace");
  ASSIGN_OR_RETURN(const std::string_view category,
                   source.TextOf(*plane, row, entry, plane->StatId("cat")));
  return HostKindOf(source.index->Text(entry.name), category);
}

}  // namespace strobe::tally
