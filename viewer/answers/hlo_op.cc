#include "viewer/answers/hlo_op.h"

#include "common/base/status_macros.h"
#include "viewer/answers/arrows.h"
#include "viewer/answers/details.h"

namespace strobe::viewer {
namespace {

// Returns the name with which an instruction begins: "fusion.1" for both "fusion.1" and
// "%fusion.1 = f32[2]{0} fusion(...)".
std::string_view InstructionName(std::string_view text) {
  if (text.starts_with('%')) text.remove_prefix(1);
  return text.substr(0, text.find(' '));
}

// The name of the module that ran on the row's plane.
std::string ModuleAt(const LoadedRun& run, std::uint32_t number, std::int64_t middle_ps) {
  const RowRef& ref = run.rows[number];
  const index::Index& index = run.WorkerOf(ref).index();
  const index::Plane& plane = index.planes()[run.RowOf(ref).plane];
  for (std::uint32_t r = plane.first_row;
       r < plane.first_row + plane.rows && r < index.rows().size(); ++r) {
    if (TensorCoreLine(index.Text(index.rows()[r].name)) != "XLA Modules") continue;
    const std::uint32_t row = run.NumberOf(ref.worker, r);
    if (const auto ordinal = EventAt(run, row, 0, middle_ps, 0))
      return std::string(ReferTo(run, ref.worker, index.rows()[r].first_track, *ordinal).name);
  }
  return "";
}

}  // namespace

absl::StatusOr<std::optional<HloOp>> HloOpOf(const LoadedRun& run, std::uint32_t row,
                                             const xplane::Plane& plane, const xplane::Event& event,
                                             std::int64_t middle_ps) {
  HloOp op;
  const auto read = [&](const xplane::Stat& stat) {
    const std::string_view name = plane.NameOf(stat);
    const auto* text = std::get_if<std::string_view>(&stat.value);
    if (name == "hlo_op" && text != nullptr) op.instruction = InstructionName(*text);
    if (name == "hlo_module" && text != nullptr) op.module = *text;
    if (name == "program_id" || name == "hlo_module_id") op.program = stat.Integer();
  };
  const auto kind = plane.event_names.find(event.name_id);
  if (kind != plane.event_names.end()) RETURN_IF_ERROR(plane.ForEachKindStat(kind->second, read));
  RETURN_IF_ERROR(ForEachStat(plane, event, read));
  const std::string_view line = TensorCoreLine(run.LineOf(row));
  const bool op_line = line == "XLA Ops" || line == "Async XLA Ops";
  // The event's full name begins with the instruction's name. The name that is shown may be
  // shorter.
  if (op.instruction.empty() && op_line && kind != plane.event_names.end())
    op.instruction = InstructionName(kind->second.name);
  if (op.instruction.empty()) return std::nullopt;
  if (op.module.empty()) op.module = ModuleAt(run, row, middle_ps);
  if (op.module.empty() && !op.program) return std::nullopt;
  return op;
}

}  // namespace strobe::viewer
