#include "operator/base/selector_json.h"

#include <optional>

#include "common/base/strings.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;
using Requirement = LabelSelector::Requirement;
using Operator = Requirement::Operator;

std::optional<Operator> OperatorOf(const std::string& text) {
  if (text == "In") return Operator::kIn;
  if (text == "NotIn") return Operator::kNotIn;
  if (text == "Exists") return Operator::kExists;
  if (text == "DoesNotExist") return Operator::kDoesNotExist;
  return std::nullopt;
}

}  // namespace

absl::StatusOr<LabelSelector> ReadSelector(const Json& selector, const std::string& field) {
  LabelSelector read;
  const auto take = [&](Requirement requirement, std::string_view part) -> absl::Status {
    if (const absl::Status good = Check(requirement); !good.ok())
      return absl::InvalidArgumentError(StrCat(field, ".", part, ": ", MessageOf(good)));
    read.requirements.push_back(std::move(requirement));
    return absl::OkStatus();
  };
  const Json labels = selector.value("matchLabels", Json::object());
  for (const auto& [key, value] : labels.items()) {
    const absl::Status taken =
        take({key, Operator::kIn, {value.get<std::string>()}}, "matchLabels");
    if (!taken.ok()) return taken;
  }
  std::size_t index = 0;
  for (const Json& expression : selector.value("matchExpressions", Json::array())) {
    const std::string part = StrCat("matchExpressions[", index++, "]");
    const std::string text = expression.value("operator", "");
    const std::optional<Operator> op = OperatorOf(text);
    if (!op) {
      return absl::InvalidArgumentError(
          StrCat(field, ".", part, ": the operator must be In, NotIn, Exists or DoesNotExist"));
    }
    const absl::Status taken = take(
        {expression.value("key", ""), *op, expression.value("values", std::vector<std::string>())},
        part);
    if (!taken.ok()) return taken;
  }
  return read;
}

}  // namespace strobe::kube
