#include "collector/store/pace.h"

#include <algorithm>
#include <thread>

#include "common/base/cancellation.h"
#include "common/base/status_macros.h"

namespace strobe::storage {

std::optional<Nanos> Pace::Claim(std::uint64_t bytes, MonoTime now, MonoTime latest) {
  const Nanos takes{static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 /
                                              static_cast<double>(bytes_per_second_))};
  MutexLock lock(&mutex_);
  const MonoTime free = std::max(free_, now) + takes;
  if (free > latest) return std::nullopt;
  free_ = free;
  return free_ - now;
}

absl::Status Pace::WaitFor(std::uint64_t bytes, const Clock& clock, const StoreLimits& limits) {
  const std::optional<Nanos> wait = Claim(bytes, clock.MonoNow(), limits.deadline);
  if (!wait) return absl::DeadlineExceededError("no time is left at the rate of uploads");
  if (limits.cancellation == nullptr)
    std::this_thread::sleep_for(*wait);
  else if (limits.cancellation->WaitFor(*wait))
    return absl::CancelledError("cancelled");
  return absl::OkStatus();
}

absl::Status PacedBytes::Read(std::uint64_t offset, std::span<char> into) const {
  RETURN_IF_ERROR(pace_.WaitFor(into.size(), clock_, limits_));
  return bytes_.Read(offset, into);
}

}  // namespace strobe::storage
