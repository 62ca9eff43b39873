// Limits the rate of uploads, to leave bandwidth for the training job.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"
#include "collector/store/byte_source.h"
#include "collector/store/object_store.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe::storage {

// A rate in bytes per second that all users share. Safe for concurrent use.
class Pace {
 public:
  // The minimal rate.
  static constexpr std::uint64_t kMinRate = 1'000'000;

  explicit Pace(std::uint64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  // Returns how long to wait before sending `bytes` more. None, and nothing is claimed, if that is
  // after `latest`. Unused time is not saved.
  std::optional<Nanos> Claim(std::uint64_t bytes, MonoTime now, MonoTime latest);
  // Waits until `bytes` more may be sent. DeadlineExceeded, at once, if that is after the limits'
  // deadline; Cancelled if that happens meanwhile.
  absl::Status WaitFor(std::uint64_t bytes, const Clock& clock, const StoreLimits& limits);

 private:
  const std::uint64_t bytes_per_second_;
  Mutex mutex_;
  MonoTime free_ ABSL_GUARDED_BY(mutex_){};  // When all claimed bytes have been sent.
};

// A ByteSource that is read no faster than the pace allows. All arguments but the limits must
// outlive it. For stores that read a little at a time, and whose calls take as long as they must.
class PacedBytes final : public ByteSource {
 public:
  PacedBytes(const ByteSource& bytes, Pace& pace, const Clock& clock, const StoreLimits& limits)
      : bytes_(bytes), pace_(pace), clock_(clock), limits_(limits) {}
  std::uint64_t size() const override { return bytes_.size(); }
  // Waits as the pace demands; see Pace::WaitFor.
  absl::Status Read(std::uint64_t offset, std::span<char> into) const override;

 private:
  const ByteSource& bytes_;
  Pace& pace_;
  const Clock& clock_;
  const StoreLimits limits_;
};

}  // namespace strobe::storage
