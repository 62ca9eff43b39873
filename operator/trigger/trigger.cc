#include "operator/trigger/trigger.h"

#include <charconv>

#include "common/base/strings.h"

namespace strobe::trigger {
namespace {

// Enough to tell the jobs of a namespace apart, and short enough to be read.
constexpr std::size_t kHashInName = 8;

}  // namespace

std::string TriggeredRunName(std::string_view trigger, std::string_view job, std::int64_t number) {
  return StrCat(trigger, "-", job::JobHash(job).substr(0, kHashInName), "-", number);
}

std::int64_t NumberOfTriggeredRun(std::string_view run) {
  run = kube::UsualRunName(run);
  const std::string_view digits = run.substr(run.rfind('-') + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && number > 0 ? number : 0;
}

}  // namespace strobe::trigger
