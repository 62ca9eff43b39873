// Handling of exceptions at the top of every thread. An exception ends the piece of work in which
// it was thrown, not the process: it is logged, counted and returned as an error. Strobe's own code
// reports errors by absl::Status, so a caught exception is a defect or means that memory ran out.
#pragma once
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <thread>
#include <type_traits>

#include "absl/status/status.h"

namespace strobe {
namespace internal {

// Logs and counts the exception and returns it as an Internal error. Never throws.
absl::Status Caught(const char* where, const char* what) noexcept;

}  // namespace internal

// Calls `work` and returns its result: OK if it returns void, otherwise its Status or StatusOr.
// Internal if it threw. `where` is a string literal that names the kind of work in logs and
// metrics.
template <typename Work>
auto RunGuarded(const char* where, Work&& work)
    -> std::conditional_t<std::is_void_v<decltype(work())>, absl::Status, decltype(work())> {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return absl::OkStatus();
    } else {
      return work();
    }
  } catch (const std::exception& error) {
    return internal::Caught(where, error.what());
  } catch (...) {
    return internal::Caught(where, "an exception of unknown type");
  }
}

// Runs the body of a thread. If `loop` throws, it is called again after 100 ms, until it returns.
template <typename Loop>
void RunThread(const char* where, Loop&& loop) {
  while (!RunGuarded(where, [&] { loop(); }).ok())
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

// The number of exceptions caught in this process, by `where`.
std::map<std::string, std::uint64_t> CaughtExceptions();

}  // namespace strobe
