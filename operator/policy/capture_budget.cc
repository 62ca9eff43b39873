#include "operator/policy/capture_budget.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/quantity.h"
#include "operator/base/json_fields.h"

namespace strobe::policy {
namespace {

std::string FreeAgain(const std::optional<WallTime>& until) {
  return until ? StrCat("; available again at ", FormatRfc3339(*until))
               : std::string("; a single capture exceeds it");
}

// The time at which so many of the last day's runs are older than a day that `fits` holds for the
// use of the others. None if that never happens. `runs` are sorted, the newest first.
template <typename Fits>
std::optional<WallTime> FreeAt(const std::vector<const kube::CreatedRun*>& runs, JobUse use,
                               WallTime now, const Fits& fits) {
  for (auto oldest = runs.rbegin(); oldest != runs.rend(); ++oldest) {
    const kube::CreatedRun& run = **oldest;
    if (run.created + kBudgetDay <= now) continue;
    --use.captures;
    use.recorded -= run.recorded;
    use.bytes -= run.bytes;
    if (fits(use)) return run.created + kBudgetDay;
  }
  return std::nullopt;
}

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

void AddUse(const kube::CreatedRun& run, WallTime now, JobUse& use) {
  use.last = std::max(use.last, std::optional(run.created));
  if (run.created + kBudgetDay <= now) return;
  ++use.captures;
  use.recorded += run.recorded;
  use.bytes += run.bytes;
}

std::optional<UsedUp> WhyUsedUp(const CaptureBudget& budget,
                                const std::vector<const kube::CreatedRun*>& runs, Nanos duration,
                                WallTime now) {
  JobUse use;
  for (const kube::CreatedRun* run : runs) AddUse(*run, now, use);
  const auto used_up = [&](const char* reason, std::string message,
                           std::optional<WallTime> until) -> UsedUp {
    message += FreeAgain(until);
    return {{reason, std::move(message)}, until};
  };
  if (budget.cool_down && use.last && *use.last + *budget.cool_down > now) {
    return used_up(kCoolDown,
                   StrCat(runs.front()->name, " was started at ", FormatRfc3339(*use.last),
                          "; coolDown is ", FormatDuration(*budget.cool_down)),
                   *use.last + *budget.cool_down);
  }
  if (budget.captures_per_day) {
    const auto most = static_cast<std::size_t>(std::max(*budget.captures_per_day, 0));
    if (use.captures >= most) {
      return used_up(
          kCapturesPerDay,
          StrCat(use.captures, " captures in the last 24 hours; capturesPerDay is ", most),
          FreeAt(runs, use, now, [&](const JobUse& left) { return left.captures < most; }));
    }
  }
  if (budget.duty_cycle) {
    const double most = *budget.duty_cycle * static_cast<double>(kBudgetDay.count());
    const auto fits = [&](const JobUse& left) {
      return static_cast<double>((left.recorded + duration).count()) <= most;
    };
    if (!fits(use)) {
      return used_up(kDutyCycle,
                     StrCat(FormatDuration(use.recorded), " were recorded in the last 24 hours; ",
                            FormatDuration(duration), " more would exceed dutyCycle, ",
                            absl::StrFormat("%g%%", *budget.duty_cycle * 100)),
                     FreeAt(runs, use, now, fits));
    }
  }
  if (budget.bytes_per_day && use.bytes >= *budget.bytes_per_day) {
    return used_up(kBytesPerDay,
                   StrCat(RoundedQuantity(use.bytes),
                          " bytes were written in the last 24 hours; bytesPerDay is ",
                          FormatQuantity(*budget.bytes_per_day)),
                   FreeAt(runs, use, now,
                          [&](const JobUse& left) { return left.bytes < *budget.bytes_per_day; }));
  }
  return std::nullopt;
}

absl::StatusOr<CaptureBudget> ReadBudget(const Json& given, const std::string& field) {
  CaptureBudget budget;
  if (const absl::Status read = ReadBudgetFields(given, budget); !read.ok())
    return absl::InvalidArgumentError(StrCat(field, ".", MessageOf(read)));
  return budget;
}

}  // namespace strobe::policy
