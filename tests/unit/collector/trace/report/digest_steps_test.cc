#include "collector/trace/report/digest_steps.h"

#include <gtest/gtest.h>

#include <numeric>

namespace strobe::report {
namespace {

// A step of 100 ns in which a device computed for 45, waited for input for 20, and communicated for
// 10 without computing. The host was in a call for 20.
Digest WorkerWithAHostsCall(bool host_device) {
  Digest digest{.worker = "w"};
  digest.names = {"train", "all-reduce"};
  digest.knows = {.device = true, .input = true, .steps = true, .host_device = host_device};
  digest.steps = {{.number = 1,
                   .begin_ns = 0,
                   .end_ns = 100,
                   .time = {.span_ns = 100,
                            .compute_ns = 45,
                            .communication_ns = 20,
                            .exposed_communication_ns = 10,
                            .idle_ns = 45},
                   .host = {.input_ns = 20, .input_stall_ns = 20}}};
  digest.collectives = {{.name = 1, .device = kNoDevice, .begin_ns = 60, .end_ns = 80}};
  return digest;
}

std::array<std::int64_t, kCauses> OwnTimeOf(const Digest& digest) {
  std::string_view loop;
  return StepsOf(digest, 10, loop).at(0).time.own_ns;
}

// Idle time is without the host's calls already, so one that a device hid takes nothing from it.
TEST(StepsOf, CallsOfTheHostAreNoIdleTime) {
  for (const bool host_device : {true, false}) {
    const auto own = OwnTimeOf(WorkerWithAHostsCall(host_device));
    EXPECT_EQ(own[static_cast<std::size_t>(Cause::kOther)], 25);
    EXPECT_EQ(std::accumulate(own.begin(), own.end(), std::int64_t{0}), 90)
        << "all but what was spent in communication alone";
  }
}

}  // namespace
}  // namespace strobe::report
