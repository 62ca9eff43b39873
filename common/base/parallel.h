// The same work on many things, a few at a time.
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

// Calls work(0) ... work(count - 1) on at most `concurrency` threads, the caller's among them, and
// returns when all are done. The first exception of any of them is thrown then; what had not begun
// by the time of it is left out.
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
