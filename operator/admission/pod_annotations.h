// The valid values of a pod's annotations. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"

namespace strobe::admission {

// Collects warnings about invalid values.
class PodAnnotations {
 public:
  PodAnnotations(const nlohmann::json& pod, std::vector<std::string>& warnings)
      : annotations_(kube::Member(kube::Member(pod, "metadata"), "annotations")),
        warnings_(warnings) {}

  template <typename Check>
  std::string Get(const char* name, const std::string& otherwise, const Check& check,
                  const char* should) {
    const std::string value = kube::TextOf(annotations_, StrCat(kube::kNamePrefix, name));
    if (value.empty() || check(value)) return value.empty() ? otherwise : value;
    Ignore(name, value, StrCat("must be ", should));
    return otherwise;
  }
  void Warn(std::string warning) { warnings_.push_back(std::move(warning)); }
  void Ignore(const char* name, const std::string& value, const std::string& why) {
    warnings_.push_back(
        StrCat(kube::kNamePrefix, name, " ", why, "; \"", CutUtf8(value, 40), "\" is ignored"));
  }

 private:
  const nlohmann::json& annotations_;
  std::vector<std::string>& warnings_;
};

}  // namespace strobe::admission
