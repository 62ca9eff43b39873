// Parses label selectors.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "operator/base/label_selector.h"

namespace strobe::kube {

// InvalidArgument names the error below `field`, such as "target.selector.matchLabels: ...". Throws
// nlohmann's exceptions if a field has the wrong type.
absl::StatusOr<LabelSelector> ReadSelector(const nlohmann::json& selector,
                                           const std::string& field);

}  // namespace strobe::kube
