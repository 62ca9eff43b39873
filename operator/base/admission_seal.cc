#include "operator/base/admission_seal.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/base/strings.h"

namespace strobe::kube {
namespace {

// Each part is preceded by its length, so that two different admissions never have the same text.
std::string TextOf(const SealedAdmission& admission) {
  std::string text = "strobe.dev/requester v1\n";
  for (const std::string& part : {admission.ns, admission.name, admission.requester,
                                  admission.content, FormatRfc3339(admission.at)})
    text += StrCat(part.size(), ":", part, "\n");
  return text;
}

}  // namespace

std::string MakeSeal(const std::string& key, const SealedAdmission& admission) {
  return HmacSha256(key, TextOf(admission));
}

bool SealHolds(std::span<const std::string> keys, const SealedAdmission& admission,
               std::string_view seal) {
  const std::string text = TextOf(admission);
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
    return !key.empty() && EqualInConstantTime(HmacSha256(key, text), seal);
  });
}

}  // namespace strobe::kube
