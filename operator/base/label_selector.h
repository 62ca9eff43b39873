// Kubernetes label selectors: reads and checks them, matches labels, and writes them as text. Pure.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strobe::kube {

struct LabelSelector {
  struct Requirement {
    enum class Operator { kIn, kNotIn, kExists, kDoesNotExist };
    std::string key{};
    Operator op = Operator::kExists;
    std::vector<std::string> values{};
  };
  std::vector<Requirement> requirements{};  // All must hold; empty = everything matches.

  bool Matches(const std::map<std::string, std::string>& labels) const;
  // In the API server's syntax, "a=b,c in (x,y),!d". Needs requirements that pass Check.
  std::string ToText() const;
};

// Kubernetes' rules for labels. A selector that breaks one makes the API server refuse every list.
// InvalidArgument says what is wrong; the caller adds the field's name.
absl::Status CheckLabelKey(std::string_view key);
absl::Status CheckLabelValue(std::string_view value);
absl::Status Check(const LabelSelector::Requirement& requirement);

// InvalidArgument names the error below `field`, such as "target.selector.matchLabels: ...". Throws
// nlohmann's exceptions if a field has the wrong type.
absl::StatusOr<LabelSelector> ReadSelector(const nlohmann::json& selector,
                                           const std::string& field);

}  // namespace strobe::kube
