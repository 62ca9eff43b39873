#include "operator/base/label_selector.h"

#include <algorithm>
#include <optional>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::kube {
namespace {

using Operator = LabelSelector::Requirement::Operator;

constexpr std::size_t kMaxPrefix = 253, kMaxName = 63, kMaxShown = 80;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool IsLowerAlphanumeric(char c) { return IsAlphanumeric(c) && !(c >= 'A' && c <= 'Z'); }

// Whether `text` is a name by the rules that CheckLabelKey explains to users.
bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && IsAlphanumeric(text.front()) &&
         IsAlphanumeric(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
           return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

bool IsDnsSubdomain(std::string_view text) {
  if (text.size() > kMaxPrefix) return false;
  const std::vector<std::string> parts = Split(text, '.');
  return std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && IsLowerAlphanumeric(part.front()) && IsLowerAlphanumeric(part.back()) &&
           std::all_of(part.begin(), part.end(),
                       [](char c) { return IsLowerAlphanumeric(c) || c == '-'; });
  });
}

absl::Status Wrong(std::string_view what, std::string_view text, std::string_view must) {
  return absl::InvalidArgumentError(StrCat(what, " \"", CutUtf8(text, kMaxShown), "\" ", must));
}

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

bool LabelSelector::Matches(const std::map<std::string, std::string>& labels) const {
  return std::all_of(requirements.begin(), requirements.end(), [&](const Requirement& want) {
    const auto label = labels.find(want.key);
    const bool exists = label != labels.end();
    const bool in = exists && std::find(want.values.begin(), want.values.end(), label->second) !=
                                  want.values.end();
    switch (want.op) {
      case Operator::kIn:
        return in;
      case Operator::kNotIn:
        return !in;
      case Operator::kExists:
        return exists;
      case Operator::kDoesNotExist:
        break;
    }
    return !exists;
  });
}

std::string LabelSelector::ToText() const {
  std::vector<std::string> parts;
  for (const Requirement& requirement : requirements) {
    const std::string values = Join(requirement.values, ",");
    switch (requirement.op) {
      case Operator::kIn:
        parts.push_back(requirement.values.size() == 1
                            ? StrCat(requirement.key, "=", values)
                            : StrCat(requirement.key, " in (", values, ")"));
        break;
      case Operator::kNotIn:
        parts.push_back(StrCat(requirement.key, " notin (", values, ")"));
        break;
      case Operator::kExists:
        parts.push_back(requirement.key);
        break;
      case Operator::kDoesNotExist:
        parts.push_back("!" + requirement.key);
        break;
    }
  }
  return Join(parts, ",");
}

absl::Status CheckLabelKey(std::string_view key) {
  const std::size_t slash = key.find('/');
  const std::string_view name = slash == std::string_view::npos ? key : key.substr(slash + 1);
  if (slash != std::string_view::npos && !IsDnsSubdomain(key.substr(0, slash)))
    return Wrong("the key", key, "must have a DNS subdomain such as example.com before its \"/\"");
  if (!IsName(name)) {
    return Wrong("the key", key,
                 "must be 1 to 63 letters, digits, '-', '_' or '.', beginning and ending with a "
                 "letter or digit, after an optional DNS subdomain and \"/\"");
  }
  return absl::OkStatus();
}

absl::Status CheckLabelValue(std::string_view value) {
  if (value.empty() || IsName(value)) return absl::OkStatus();
  return Wrong("the value", value,
               "must be at most 63 letters, digits, '-', '_' or '.', beginning and ending with a "
               "letter or digit");
}

absl::Status Check(const LabelSelector::Requirement& requirement) {
  RETURN_IF_ERROR(CheckLabelKey(requirement.key));
  const bool wants_values = requirement.op == Operator::kIn || requirement.op == Operator::kNotIn;
  if (wants_values == requirement.values.empty()) {
    return absl::InvalidArgumentError(
        "In and NotIn need values; Exists and DoesNotExist take none");
  }
  for (const std::string& value : requirement.values) RETURN_IF_ERROR(CheckLabelValue(value));
  return absl::OkStatus();
}

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
