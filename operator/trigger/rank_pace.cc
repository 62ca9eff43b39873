#include "operator/trigger/rank_pace.h"

#include <algorithm>
#include <vector>

#include "common/base/quantile.h"
#include "common/base/strings.h"

namespace strobe::trigger {
namespace {

constexpr std::size_t kMaxPacedWorkers = 20'000;
// A worker that has told nothing for the first time is not compared with. After the second it is
// forgotten.
constexpr Nanos kFreshPace = std::chrono::seconds(40), kForgetPaces = std::chrono::minutes(2);
// The largest number of steps that is counted, so that sums cannot overflow.
constexpr std::uint32_t kMaxReportedSteps = 1'000'000;
// A worker counts as slower only if its time is at least kAboveMajority times what kMajority of the
// others need: where half of the workers are slow, none stands out.
constexpr double kMajority = 0.75, kAboveMajority = 1.1;

}  // namespace

std::optional<ReportedSign> RankPace::Take(const std::string& group, const std::string& worker,
                                           const ReportedStepTime& told, const SlowSteps& asked,
                                           MonoTime now) {
  Forget(now);
  auto& workers = groups_[StrCat(group, "\n", told.loop)];
  const std::string key = StrCat(worker, "\n", told.process);
  auto known = workers.find(key);
  if (known == workers.end()) {
    if (size_ >= kMaxPacedWorkers) {
      ++dropped_;
      return std::nullopt;
    }
    known = workers.emplace(key, Worker{}).first;
    ++size_;
  }
  Worker& own = known->second;
  own.step = told.step;
  own.reported_at = now;
  const std::optional<Usual> usual = UsualOfOthers(workers, key, now);
  if (!usual) return std::nullopt;
  const double own_step = static_cast<double>(told.step.count());
  if (own_step <= usual->median * (1 + asked.percent / 100.0) ||
      own_step <= usual->most * kAboveMajority) {
    own.slow_steps = 0;
    own.found = false;
    return std::nullopt;
  }
  // A worker can claim any numbers.
  const std::uint32_t steps = std::min(told.steps, kMaxReportedSteps);
  const Nanos step = std::clamp(told.step, Nanos{0}, kMaxSignAge);
  if (own.slow_steps == 0) own.since = now - std::min<Nanos>(step * steps, kMaxSignAge);
  own.slow_steps = std::min(own.slow_steps + steps, kMaxReportedSteps);
  if (own.slow_steps < asked.steps || own.found) return std::nullopt;
  own.found = true;
  return ReportedSign{.began_ago = now - own.since,
                      .loop = told.loop,
                      .process = told.process,
                      .step = told.step,
                      .usual_step = Nanos{static_cast<std::int64_t>(usual->median)}};
}

std::optional<RankPace::Usual> RankPace::UsualOfOthers(const std::map<std::string, Worker>& workers,
                                                       const std::string& but, MonoTime now) const {
  std::vector<double> times;
  for (const auto& [key, worker] : workers) {
    if (key != but && worker.reported_at + kFreshPace > now)
      times.push_back(static_cast<double>(worker.step.count()));
  }
  if (times.size() < kMinOthers) return std::nullopt;
  Usual usual;
  usual.median = QuantileOf(times, 0.5);
  usual.most = QuantileOf(times, kMajority);
  return usual;
}

void RankPace::Forget(MonoTime now) {
  if (now - forgot_ < kForgetPaces) return;
  forgot_ = now;
  for (auto& [group, workers] : groups_) {
    size_ -= std::erase_if(
        workers, [&](const auto& entry) { return entry.second.reported_at + kForgetPaces < now; });
  }
  std::erase_if(groups_, [](const auto& entry) { return entry.second.empty(); });
}

}  // namespace strobe::trigger
