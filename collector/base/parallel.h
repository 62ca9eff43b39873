// The same work on many things, a few at a time.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace strobe {

// Calls work(0) ... work(count - 1) on at most `concurrency` threads, the caller's among them, and
// returns when all are done.
inline void ParallelFor(std::size_t count, std::size_t concurrency,
                        const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < std::min(count, concurrency); ++i) helpers.emplace_back(run);
  run();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace strobe
