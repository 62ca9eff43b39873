// Bounds the memory for evidence of all jobs that are looked at at the same time.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe::capture {

// Safe for concurrent use. What is held may outlive it.
class EvidenceMemory {
 public:
  explicit EvidenceMemory(std::uint64_t bytes) : state_(std::make_shared<State>(bytes)) {}

  // Null if there is not so much left. Otherwise it is taken until the result is dropped.
  std::shared_ptr<void> Take(std::uint64_t bytes) {
    {
      MutexLock lock(&state_->mutex);
      if (state_->left < bytes) return nullptr;
      state_->left -= bytes;
    }
    return std::make_shared<Held>(state_, bytes);
  }

 private:
  struct State {
    explicit State(std::uint64_t bytes) : left(bytes) {}
    Mutex mutex;
    std::uint64_t left ABSL_GUARDED_BY(mutex);
  };
  class Held {
   public:
    Held(std::shared_ptr<State> state, std::uint64_t bytes)
        : state_(std::move(state)), bytes_(bytes) {}
    ~Held() {
      MutexLock lock(&state_->mutex);
      state_->left += bytes_;
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    const std::shared_ptr<State> state_;
    const std::uint64_t bytes_;
  };

  const std::shared_ptr<State> state_;
};

}  // namespace strobe::capture
