// Kubernetes label selectors: checked, matched here, or written for the API server. Pure.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace strobe {

struct LabelSelector {
  struct Requirement {
    enum class Operator { kIn, kNotIn, kExists, kDoesNotExist };
    std::string key{};
    Operator op = Operator::kExists;
    std::vector<std::string> values{};
  };
  std::vector<Requirement> requirements{};  // All must hold; none = everything matches.

  bool Matches(const std::map<std::string, std::string>& labels) const;
  // "a=b,c in (x,y),!d", as the API server takes it; of requirements that Check finds good.
  std::string ToText() const;
};

// By Kubernetes' rules, without which the API server refuses every list. InvalidArgument: what is
// wrong, without the field's name.
absl::Status CheckLabelKey(std::string_view key);
absl::Status CheckLabelValue(std::string_view value);
absl::Status Check(const LabelSelector::Requirement& requirement);

}  // namespace strobe
