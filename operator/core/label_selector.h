// A Kubernetes label selector, matched here instead of by the API server.
#pragma once
#include <map>
#include <string>
#include <vector>

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
};

}  // namespace strobe
