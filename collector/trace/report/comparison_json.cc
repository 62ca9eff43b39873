#include "collector/trace/report/comparison_json.h"

#include <algorithm>

#include "collector/trace/digest/digest_json.h"

namespace strobe {
namespace {

using ChangesJson = nlohmann::ordered_json;

ChangesJson ComparedRunJson(const report::ComparedRun& run) {
  return {{"workers", run.workers},
          {"steps", run.steps},
          {"loop", run.loop.empty() ? ChangesJson() : ChangesJson(run.loop)},
          {"stepsNs", run.step_ns}};
}

ChangesJson ChangeJson(const report::Change& change) {
  const bool told = change.smallest > 0;
  return {{"beforeNs", change.before},
          {"afterNs", change.after},
          {"differenceNs", change.difference()},
          {"errorNs", told ? ChangesJson(change.error) : ChangesJson()},
          {"smallestToldNs", told ? ChangesJson(change.smallest) : ChangesJson()},
          {"beforeN", change.before_n},
          {"afterN", change.after_n},
          {"verdict", report::VerdictName(change.verdict)}};
}

}  // namespace

nlohmann::ordered_json ComparisonToJson(const report::RunComparison& comparison,
                                        std::size_t max_ops) {
  ChangesJson parts = ChangesJson::object(), ops = ChangesJson::array();
  for (const report::PartChange& part : comparison.parts)
    parts[std::string(report::PartName(part.part))] = ChangeJson(part.time);
  for (const report::OpChange& op : comparison.ops) {
    if (ops.size() == max_ops) break;
    ChangesJson json = {{"name", op.name}, {"kind", NameOf(op.kind)}};
    json.update(ChangeJson(op.self));
    json["verdict"] = report::VerdictName(op.verdict);
    json["beforeCalls"] = op.before_calls;
    json["afterCalls"] = op.after_calls;
    ops.push_back(std::move(json));
  }
  return {{"headline", report::Headline(comparison)},
          {"before", ComparedRunJson(comparison.before)},
          {"after", ComparedRunJson(comparison.after)},
          {"unit", comparison.of_steps ? "step" : "second"},
          {"step", comparison.of_steps ? ChangeJson(comparison.step) : ChangesJson()},
          {"parts", std::move(parts)},
          {"ops", std::move(ops)},
          {"opsLeftOut", comparison.ops.size() - std::min(comparison.ops.size(), max_ops)},
          {"unknown", comparison.unknown}};
}

}  // namespace strobe
