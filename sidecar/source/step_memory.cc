#include "sidecar/source/step_memory.h"

#include <algorithm>
#include <utility>

namespace strobe {

Nanos StepMemory::Patience(const std::string& teller, Nanos longest) const {
  MutexLock lock(&mutex_);
  return told_.contains(teller) ? kUsual : longest;
}

std::vector<v1::StepPace> StepMemory::Take(const std::string& teller,
                                           std::optional<std::vector<v1::StepPace>> answer,
                                           WallTime now, Silent silent) {
  MutexLock lock(&mutex_);
  std::vector<v1::StepPace>& told = told_[teller];
  if (answer) return told = *std::move(answer);
  if (silent == Silent::kRests) return told;
  std::vector<v1::StepPace> expected = told;
  for (v1::StepPace& pace : expected) pace = ContinuedAt(std::move(pace), now);
  return expected;
}

void StepMemory::KeepOnly(const std::vector<std::string>& tellers) {
  MutexLock lock(&mutex_);
  std::erase_if(told_, [&](const auto& entry) {
    return std::find(tellers.begin(), tellers.end(), entry.first) == tellers.end();
  });
}

v1::StepPace ContinuedAt(v1::StepPace pace, WallTime now) {
  const std::int64_t since = ToUnixNanos(now) - pace.began_ns(), period = pace.period_ns();
  if (period <= 0 || since < period) return pace;
  const std::int64_t steps = since / period;
  pace.set_number(pace.number() + steps);
  pace.set_began_ns(pace.began_ns() + steps * period);
  pace.set_ended_ns(0);
  return pace;
}

}  // namespace strobe
