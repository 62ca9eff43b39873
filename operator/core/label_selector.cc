#include "operator/core/label_selector.h"

#include <algorithm>

namespace strobe {

bool LabelSelector::Matches(const std::map<std::string, std::string>& labels) const {
  return std::all_of(requirements.begin(), requirements.end(), [&](const Requirement& want) {
    const auto label = labels.find(want.key);
    const bool exists = label != labels.end();
    const bool in = exists && std::find(want.values.begin(), want.values.end(), label->second) !=
                                  want.values.end();
    switch (want.op) {
      case Requirement::Operator::kIn:
        return in;
      case Requirement::Operator::kNotIn:
        return !in;
      case Requirement::Operator::kExists:
        return exists;
      case Requirement::Operator::kDoesNotExist:
        break;
    }
    return !exists;
  });
}

}  // namespace strobe
