#include "collector/storage/pace.h"

#include <algorithm>
#include <thread>

namespace strobe::storage {

Nanos Pace::Claim(std::uint64_t bytes, MonoTime now) {
  const Nanos takes{static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 /
                                              static_cast<double>(bytes_per_second_))};
  MutexLock lock(&mutex_);
  free_ = std::max(free_, now) + takes;
  return free_ - now;
}

absl::Status PacedBytes::Read(std::uint64_t offset, std::span<char> into) const {
  const Nanos wait = pace_.Claim(into.size(), clock_.MonoNow());
  if (cancel_ == nullptr)
    std::this_thread::sleep_for(wait);
  else if (cancel_->WaitFor(wait))
    return absl::CancelledError("cancelled");
  return bytes_.Read(offset, into);
}

}  // namespace strobe::storage
