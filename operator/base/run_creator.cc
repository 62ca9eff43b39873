#include "operator/base/run_creator.h"

#include "common/base/hash.h"
#include "common/base/strings.h"

namespace strobe::kube {
namespace {

constexpr std::string_view kOtherName = "-x";
constexpr std::size_t kOtherNameDigits = 16;

}  // namespace

std::string_view NounOf(CreatorKind kind) {
  return kind == CreatorKind::kSchedule ? "schedule" : "trigger";
}

std::string OtherRunName(std::string_view usual, const RunCreator& creator,
                         const std::string& key) {
  const std::string code = HmacSha256(
      key, StrCat("strobe.dev/run-name v1\n", creator.ns, "\n", creator.uid, "\n", usual));
  return StrCat(usual, kOtherName, code.substr(0, kOtherNameDigits));
}

std::string_view UsualRunName(std::string_view run) {
  constexpr std::size_t kAdded = kOtherName.size() + kOtherNameDigits;
  if (run.size() <= kAdded) return run;
  const std::string_view added = run.substr(run.size() - kAdded);
  const bool other =
      added.starts_with(kOtherName) &&
      added.find_first_not_of("0123456789abcdef", kOtherName.size()) == std::string_view::npos;
  return other ? run.substr(0, run.size() - kAdded) : run;
}

}  // namespace strobe::kube
