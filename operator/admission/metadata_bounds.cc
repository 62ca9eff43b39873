#include "operator/admission/metadata_bounds.h"

#include <array>

#include "common/base/strings.h"
#include "operator/base/json_members.h"
#include "operator/base/namespace_bounds.h"

namespace strobe::admission {
namespace {

struct EntryBound {
  const char* field;
  std::size_t most;
};
constexpr std::array<EntryBound, 4> kEntryBounds = {
    {{"labels", kube::kMaxLabels},
     {"annotations", kube::kMaxAnnotations},
     {"finalizers", kube::kMaxFinalizers},
     {"ownerReferences", kube::kMaxOwnerReferences}}};

}  // namespace

std::string WhyTooManyEntries(const nlohmann::json& object, const nlohmann::json& before) {
  const nlohmann::json& metadata = kube::Member(object, "metadata");
  const nlohmann::json& former = kube::Member(before, "metadata");
  for (const auto& [field, most] : kEntryBounds) {
    const std::size_t count = kube::Member(metadata, field).size();
    if (count > most && count > kube::Member(former, field).size())
      return StrCat("metadata.", field, " has ", count, " entries, and may have ", most);
  }
  return "";
}

}  // namespace strobe::admission
