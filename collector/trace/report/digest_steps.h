// What a digest says about its worker, its steps and their time, in the words of operations.h.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "collector/trace/digest/digest.h"
#include "collector/trace/report/operations.h"

namespace strobe::report {

// Times are clamped to this, so that sums of hostile ones do not overflow. About 73 years.
inline constexpr std::int64_t kFarNs = std::int64_t{1} << 61;

// A time of the digest on the common clock, in Unix ns.
std::int64_t CommonTime(const digest::Digest& digest, std::int64_t time_ns);

// The worker, with what its trace can tell. Its clock is known only if its zero is.
JobWorker WorkerOf(const digest::Digest& digest);

struct WorkerStepTime {
  std::int64_t number = 0;
  // Its end is known: the next step begins there, or the program's annotations cover whole steps,
  // so that the end of its own annotation tells it.
  bool whole = false;
  WorkerStep time{};  // Without the worker's number.
};
// The steps of the loop that takes most of the digest's time, by begin; of several steps with one
// number the first. At most `max`. `loop` becomes the loop's name.
std::vector<WorkerStepTime> StepsOf(const digest::Digest& digest, std::size_t max,
                                    std::string_view& loop);

}  // namespace strobe::report
