#include "operator/policy/budget_json.h"

#include <charconv>

#include "common/base/status_macros.h"
#include "operator/base/json_fields.h"

namespace strobe::policy {
namespace {

using Json = nlohmann::json;

constexpr Nanos kMinCoolDown = std::chrono::seconds(10), kMaxCoolDown = kBudgetDay;
constexpr int kMaxCapturesPerDay = 1000;

// "0.5%" as a part of 1.
absl::StatusOr<double> ParsePercent(const std::string& text) {
  double percent = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, percent, std::chars_format::fixed);
  if (error != std::errc() || rest + 1 != end || *rest != '%' || !(percent > 0 && percent <= 100)) {
    return absl::InvalidArgumentError(
        "dutyCycle: it must be above 0% and at most 100%, written such as 0.5%");
  }
  return percent / 100;
}

absl::Status ReadBudgetFields(const Json& given, CaptureBudget& budget) {
  RETURN_IF_ERROR(kube::ReadDuration(given, "coolDown", budget.cool_down));
  RETURN_IF_ERROR(kube::ReadBytes(given, "bytesPerDay", budget.bytes_per_day));
  if (given.contains("capturesPerDay"))
    budget.captures_per_day = given["capturesPerDay"].get<int>();
  // The schema refuses these values, but an older schema may be installed.
  if (budget.cool_down && (*budget.cool_down < kMinCoolDown || *budget.cool_down > kMaxCoolDown))
    return absl::InvalidArgumentError("coolDown: it must be from 10s to 24h");
  if (budget.captures_per_day &&
      (*budget.captures_per_day < 1 || *budget.captures_per_day > kMaxCapturesPerDay))
    return absl::InvalidArgumentError("capturesPerDay: it must be from 1 to 1000");
  if (given.contains("dutyCycle")) {
    ASSIGN_OR_RETURN(budget.duty_cycle, ParsePercent(given["dutyCycle"].get<std::string>()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CaptureBudget> ReadBudget(const Json& given, const std::string& field) {
  CaptureBudget budget;
  if (const absl::Status read = ReadBudgetFields(given, budget); !read.ok())
    return absl::InvalidArgumentError(StrCat(field, ".", MessageOf(read)));
  return budget;
}

}  // namespace strobe::policy
