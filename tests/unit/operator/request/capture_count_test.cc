#include "operator/request/capture_count.h"

#include <gtest/gtest.h>

#include <thread>

namespace strobe::request {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Recorded final : CaptureMetrics {
  void AttemptEnded(const objects::ProfileRequest&, const capture::AttemptProgress&) override {
    ++attempts;
  }
  void CaptureEnded(const objects::ProfileRequest&, CaptureEnd end) override { last = end; }
  void ActiveCaptures(std::size_t count) override { active = count; }
  int attempts = 0;
  CaptureEnd last = CaptureEnd::kSucceeded;
  std::size_t active = 0;
};

TEST(CaptureCount, PassesOnWhatItIsTold) {
  Recorded metrics;
  CaptureCount captures(metrics);
  captures.AttemptEnded({}, {});
  captures.CaptureEnded({}, CaptureEnd::kFailed);
  captures.ActiveCaptures(3);
  EXPECT_EQ(metrics.attempts, 1);
  EXPECT_EQ(metrics.last, CaptureEnd::kFailed);
  EXPECT_EQ(metrics.active, 3u);
}

TEST(CaptureCount, WaitsUntilNoneIsUnderWay) {
  Recorded metrics;
  CaptureCount captures(metrics);
  EXPECT_TRUE(captures.AwaitNone(Nanos{0}));
  captures.ActiveCaptures(2);
  EXPECT_FALSE(captures.AwaitNone(milliseconds(1)));
  bool none = false;
  std::thread waiter([&] { none = captures.AwaitNone(seconds(60)); });
  captures.ActiveCaptures(1);
  captures.ActiveCaptures(0);
  waiter.join();
  EXPECT_TRUE(none);
}

}  // namespace
}  // namespace strobe::request
