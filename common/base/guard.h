// What stands at the top of every thread. An exception ends the piece of work in which it was
// thrown and not the process: it is logged, counted and returned as an error. Exceptions are not
// how this code tells errors; what is caught here is a defect, or memory that ran out.
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

// Logs and counts. Never throws.
absl::Status Caught(const char* where, const char* what) noexcept;

}  // namespace internal

// Calls `work`, which returns nothing, a Status or a StatusOr, and returns its result; Internal
// when it threw. `where` names the kind of work in logs and metrics: a string literal.
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

// The body of a thread: `loop` is called again, after a moment, until it returns without throwing.
template <typename Loop>
void RunThread(const char* where, Loop&& loop) {
  while (!RunGuarded(where, [&] { loop(); }).ok())
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

// How many exceptions were caught in this process, by `where`; for metrics.
std::map<std::string, std::uint64_t> CaughtExceptions();

}  // namespace strobe
