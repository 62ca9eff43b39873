#include "viewer/answers/graph.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "collector/trace/analysis/hlo_module.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxName = 300, kMaxText = 4000;  // Bytes.
constexpr std::size_t kMaxCalls = 20;

using Users = std::vector<std::vector<std::uint32_t>>;

// The numbers of the instructions to show, the nearest to the centre first.
std::vector<std::uint32_t> Around(const analysis::HloComputation& computation, const Users& users,
                                  std::uint32_t centre, const GraphRequest& request) {
  std::unordered_map<std::uint32_t, std::uint32_t> steps = {{centre, 0}};
  std::vector<std::uint32_t> shown = {centre};
  for (std::size_t next = 0; next < shown.size(); ++next) {
    const std::uint32_t step = steps[shown[next]];
    if (step >= request.levels) break;
    for (const auto* neighbours :
         {&computation.instructions[shown[next]].operands, &users[shown[next]]}) {
      const std::size_t count = std::min<std::size_t>(neighbours->size(), request.fan);
      for (std::size_t i = 0; i < count && shown.size() < request.limit; ++i) {
        if (steps.try_emplace((*neighbours)[i], step + 1).second) shown.push_back((*neighbours)[i]);
      }
    }
  }
  return shown;
}

Json CallsOf(const analysis::HloModule& module, const analysis::HloInstruction& instruction) {
  Json calls = Json::array();
  for (const std::int64_t id : instruction.calls) {
    if (calls.size() >= kMaxCalls) break;
    const analysis::HloComputation* called = module.Computation(id);
    if (called == nullptr || called->instructions.empty()) continue;
    calls.push_back({{"computation", CutUtf8(called->name, kMaxName)},
                     {"root", CutUtf8(called->instructions[called->root].name, kMaxName)}});
  }
  return calls;
}

}  // namespace

absl::StatusOr<std::string> DrawGraph(const LoadedRun& run, const GraphRequest& request) {
  if (request.worker >= run.workers.size()) return absl::NotFoundError("there is no such worker");
  ASSIGN_OR_RETURN(const std::string_view proto,
                   analysis::FindHloProto(run.workers[request.worker].files->space,
                                          request.op.module, request.op.program));
  absl::StatusOr<analysis::HloModule> read = analysis::HloModule::Read(proto);
  if (!read.ok())
    return absl::Status(read.status().code(),
                        ToAbsl(StrCat("the HLO of ", request.op.module.substr(0, 200),
                                      " cannot be read: ", MessageOf(read.status()))));
  const analysis::HloModule& module = *read;
  ASSIGN_OR_RETURN(
      const analysis::HloModule::InstructionRef centre,
      request.op.instruction.empty() ? module.Root() : module.Find(request.op.instruction));
  const analysis::HloComputation& computation = module.computations[centre.computation];
  const Users users = computation.Users();
  const std::vector<std::uint32_t> shown = Around(computation, users, centre.instruction, request);
  const std::unordered_set<std::uint32_t> is_shown(shown.begin(), shown.end());
  Json nodes = Json::array(), edges = Json::array();
  for (const std::uint32_t number : shown) {
    const analysis::HloInstruction& instruction = computation.instructions[number];
    const analysis::HloOrigin origin = analysis::OriginOf(instruction);
    std::vector<std::uint32_t> operands = instruction.operands;
    std::sort(operands.begin(), operands.end());
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    nodes.push_back(
        {{"id", number},
         {"name", CutUtf8(instruction.name, kMaxName)},
         {"opcode", CutUtf8(instruction.opcode, kMaxName)},
         {"shape", CutUtf8(analysis::HloShape(instruction), kMaxName)},
         {"text", CutUtf8(analysis::HloText(module, {centre.computation, number}, kMaxText),
                          kMaxText + kMaxName)},
         {"op", CutUtf8(origin.op, kMaxName)},
         {"source", CutUtf8(origin.source, kMaxName)},
         {"root", number == computation.root},
         {"operands", operands.size()},
         {"users", users[number].size()},
         {"calls", CallsOf(module, instruction)}});
    for (const std::uint32_t operand : operands) {
      if (is_shown.contains(operand)) edges.push_back({operand, number});
    }
  }
  const Json json = {{"module", CutUtf8(module.name, kMaxName)},
                     {"computation", CutUtf8(computation.name, kMaxName)},
                     {"computations", module.computations.size()},
                     {"instructions", computation.instructions.size()},
                     {"missing", computation.missing},
                     {"centre", centre.instruction},
                     {"nodes", std::move(nodes)},
                     {"edges", std::move(edges)}};
  return JsonText(json);
}

}  // namespace strobe::viewer
