// A bound for the bytes, of memory or of a disk, that all askers hold together, with a share for
// each of them.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe::fair {

// Safe for concurrent use.
class ByteShares {
 public:
  struct Limits {
    std::uint64_t all = 0, each = 0;  // `each` is for one asker.
  };
  // Bytes that somebody holds, until its end.
  class Holding {
   public:
    Holding() = default;
    ~Holding() { Release(); }
    Holding(Holding&& other) noexcept { *this = std::move(other); }
    Holding& operator=(Holding&& other) noexcept {
      std::swap(shares_, other.shares_);
      std::swap(asker_, other.asker_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }

    // Holds so many more. False, and no change, if that would be too much.
    bool Grow(std::uint64_t bytes);
    void Release();
    std::uint64_t bytes() const { return bytes_; }

   private:
    friend class ByteShares;
    std::shared_ptr<ByteShares> shares_;
    std::string asker_;
    std::uint64_t bytes_ = 0;
  };

  explicit ByteShares(const Limits& limits) : limits_(limits) {}

  // Nothing at first. It may outlive what else refers to the shares.
  static Holding Begin(std::shared_ptr<ByteShares> shares, std::string asker);
  // How many bytes this asker may still take.
  std::uint64_t LeftFor(const std::string& asker);
  std::uint64_t held();  // By all.

 private:
  std::uint64_t Left(const std::string& asker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  Mutex mutex_;
  std::map<std::string, std::uint64_t> by_asker_ ABSL_GUARDED_BY(mutex_);  // None is 0.
  std::uint64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace strobe::fair
