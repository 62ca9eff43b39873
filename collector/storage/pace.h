// Uploads that leave room on the network for the job they are about.
#pragma once
#include <cstdint>
#include <span>

#include "absl/base/thread_annotations.h"
#include "collector/logdir/byte_source.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe {

// So many bytes per second, shared by whoever asks. Safe for concurrent use.
class Pace {
 public:
  // Requests to stores end when they are slower than a fourth of this.
  static constexpr std::uint64_t kSlowest = 1'000'000;

  explicit Pace(std::uint64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  // How long to wait before `bytes` more go out. Time that was not used is not saved up.
  Nanos Claim(std::uint64_t bytes, MonoTime now);

 private:
  const std::uint64_t bytes_per_second_;
  Mutex mutex_;
  MonoTime free_ ABSL_GUARDED_BY(mutex_){};  // When all that was claimed has gone out.
};

// Bytes that can be had no faster than the pace allows. All outlive it.
class PacedBytes final : public ByteSource {
 public:
  PacedBytes(const ByteSource& bytes, Pace& pace, const Clock& clock, const Cancellation* cancel)
      : bytes_(bytes), pace_(pace), clock_(clock), cancel_(cancel) {}
  std::uint64_t size() const override { return bytes_.size(); }
  // Cancelled when that comes first.
  absl::Status Read(std::uint64_t offset, std::span<char> into) const override;

 private:
  const ByteSource& bytes_;
  Pace& pace_;
  const Clock& clock_;
  const Cancellation* const cancel_;
};

}  // namespace strobe
