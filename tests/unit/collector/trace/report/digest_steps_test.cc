#include "collector/trace/report/digest_steps.h"

#include <gtest/gtest.h>

#include <numeric>

namespace strobe::report {
namespace {

// A step of 100 ns in which a device computed for 45, waited for input for 20, and communicated for
// 10 without computing. The host was in a call for 20.
digest::Digest WorkerWithAHostsCall(bool host_device) {
  digest::Digest digest{.worker = "w"};
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
  digest.collectives = {{.name = 1, .device = digest::kNoDevice, .begin_ns = 60, .end_ns = 80}};
  return digest;
}

std::array<std::int64_t, kCauses> OwnTimeOf(const digest::Digest& digest) {
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

// Steps of 100 ns of which `annotated` are inside of the annotation, and a last one of `last_ns`.
std::vector<WorkerStepTime> WithLastStep(std::int64_t annotated, std::int64_t last_ns) {
  digest::Digest digest{.worker = "w"};
  digest.names = {"train"};
  for (std::int64_t i = 0; i < 3; ++i)
    digest.steps.push_back({.number = i,
                            .begin_ns = 100 * i,
                            .end_ns = 100 * (i + 1),
                            .followed = true,
                            .annotation_end_ns = 100 * i + annotated});
  digest.steps.push_back(
      {.number = 3, .begin_ns = 300, .end_ns = 300 + last_ns, .annotation_end_ns = 300 + last_ns});
  std::string_view loop;
  return StepsOf(digest, 10, loop);
}

TEST(StepsOf, ALastStepIsWholeIfAnnotationsCoverStepsAndItIsNotCut) {
  EXPECT_TRUE(WithLastStep(100, 100).at(3).whole);
  EXPECT_TRUE(WithLastStep(99, 80).at(3).whole);
  EXPECT_FALSE(WithLastStep(90, 100).at(3).whole) << "input is loaded between two steps";
  EXPECT_FALSE(WithLastStep(100, 60).at(3).whole) << "the recording ended in it";
  EXPECT_TRUE(WithLastStep(90, 100).at(2).whole) << "another one follows";
}

}  // namespace
}  // namespace strobe::report
