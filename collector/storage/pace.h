// Limits the rate of uploads, to leave bandwidth for the training job.
#pragma once
#include <cstdint>
#include <span>

#include "absl/base/thread_annotations.h"
#include "collector/logdir/byte_source.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe::storage {

// A rate in bytes per second that all users share. Safe for concurrent use.
class Pace {
 public:
  // The minimal rate. Requests to stores time out if they are slower than a quarter of it.
  static constexpr std::uint64_t kMinRate = 1'000'000;

  explicit Pace(std::uint64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  // Returns how long to wait before sending `bytes` more. Unused time is not saved.
  Nanos Claim(std::uint64_t bytes, MonoTime now);

 private:
  const std::uint64_t bytes_per_second_;
  Mutex mutex_;
  MonoTime free_ ABSL_GUARDED_BY(mutex_){};  // When all claimed bytes have been sent.
};

// A ByteSource that is read no faster than the pace allows. All arguments must outlive it.
class PacedBytes final : public ByteSource {
 public:
  PacedBytes(const ByteSource& bytes, Pace& pace, const Clock& clock, const Cancellation* cancel)
      : bytes_(bytes), pace_(pace), clock_(clock), cancel_(cancel) {}
  std::uint64_t size() const override { return bytes_.size(); }
  // Waits as the pace demands. Cancelled if `cancel` is set meanwhile.
  absl::Status Read(std::uint64_t offset, std::span<char> into) const override;

 private:
  const ByteSource& bytes_;
  Pace& pace_;
  const Clock& clock_;
  const Cancellation* const cancel_;
};

}  // namespace strobe::storage
