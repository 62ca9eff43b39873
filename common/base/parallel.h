// Runs the same work on many items with bounded concurrency.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace strobe {

// Calls work(0) to work(count - 1) on at most `concurrency` threads, including the calling thread,
// and returns when all calls are done. After an exception no further call begins; the first
// exception is rethrown at the end.
inline void ParallelFor(std::size_t count, std::size_t concurrency,
                        const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard<std::mutex> lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < std::min(count, concurrency); ++i) helpers.emplace_back(run);
  run();
  for (std::jthread& helper : helpers) helper.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace strobe
