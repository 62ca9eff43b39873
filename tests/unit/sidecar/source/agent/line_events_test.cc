#include "sidecar/source/agent/line_events.h"

#include <gmock/gmock.h>

namespace strobe::source {
namespace {

constexpr std::int64_t kUs = 1'000'000;

LineEvent Annotation(std::int64_t begin, std::int64_t end) { return {begin, end, nullptr, "a"}; }
HostCall Call(std::int64_t begin, std::int64_t end) {
  HostCall call;
  call.begin_ps = begin;
  call.end_ps = end;
  return call;
}

TEST(LineEvents, OfEventsWithTheSameBeginTheOuterOneComesFirst) {
  std::vector<LineEvent> events = {Annotation(5 * kUs, 6 * kUs), Annotation(0, 2 * kUs),
                                   Annotation(0, 9 * kUs)};
  SortEvents(events);
  EXPECT_EQ(events[0].end_ps, 9 * kUs);
  EXPECT_EQ(events[1].end_ps, 2 * kUs);
  EXPECT_EQ(events[2].begin_ps, 5 * kUs);
}

TEST(LineEvents, ACallIsMovedIntoItsAnnotation) {
  std::vector<LineEvent> events = {Annotation(100 * kUs, 200 * kUs)};
  // By CUPTI's clock the first begins a little before its annotation, the second ends after it.
  const std::vector<HostCall> calls = {Call(99 * kUs, 120 * kUs), Call(150 * kUs, 201 * kUs)};
  AddCalls(calls, events);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].call, nullptr);
  EXPECT_EQ(events[1].begin_ps, 100 * kUs);
  EXPECT_EQ(events[2].end_ps, 200 * kUs);
}

TEST(LineEvents, ACallThatIsClearlyOutsideStays) {
  std::vector<LineEvent> events = {Annotation(100 * kUs, 200 * kUs)};
  const std::vector<HostCall> calls = {Call(10 * kUs, 50 * kUs)};
  AddCalls(calls, events);
  EXPECT_EQ(events[0].begin_ps, 10 * kUs);
  EXPECT_EQ(events[0].end_ps, 50 * kUs);
}

}  // namespace
}  // namespace strobe::source
