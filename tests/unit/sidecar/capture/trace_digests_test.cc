#include "sidecar/capture/trace_digests.h"

#include <gmock/gmock.h>

#include "collector/trace/digest/encode.h"
#include "sidecar/capture/trace_report.h"
#include "tests/fakes/fake_trace.h"

namespace strobe::session {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class TraceDigestsTest : public testing::Test {
 protected:
  TraceDigestsTest() {
    report_.set_capture_id("a");
    report_.mutable_plan()->set_worker("w0");
    report_.mutable_plan()->set_clock_offset_ns(77);
    report_.mutable_plan()->set_clock_error_ns(5);
    report_.mutable_rank()->set_rank(3);
  }
  TracePieces Trace(int events = 1) const {
    return {
        std::make_shared<std::string>(FakeTrace(1'000'000, 2'000'000, events).SerializeAsString()),
        std::make_shared<std::string>(EncodeStrobePlane(report_))};
  }

  v1::Report report_;
  TraceDigests digests_;
};

TEST_F(TraceDigestsTest, SumsUpTheTraceWithItsStrobePlane) {
  digests_.Begin(report_, {Trace(5)});
  const absl::StatusOr<std::string> bytes = digests_.Wait("a", "w0", 10s);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const absl::StatusOr<digest::Digest> digest = digest::DecodeDigest(*bytes);
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(digest->worker, "w0");
  EXPECT_EQ(digest->events, 5u);
  EXPECT_EQ(digest->rank, 3u);
  EXPECT_EQ(digest->clock_offset_ns, 77);
  EXPECT_EQ(digest->clock_error_ns, 5);
}

TEST_F(TraceDigestsTest, ATraceThatIsDamagedSaysSoAndCostsNoOtherAnything) {
  for (const char* name : {"w0.0", "w0.1", "w0.2"})
    report_.add_workers()->mutable_plan()->set_worker(name);
  TracePieces damaged = Trace();
  damaged[0] = std::make_shared<std::string>("\x0a\x7f damaged");
  digests_.Begin(report_, {damaged, Trace(), {}});
  const absl::Status why = digests_.Wait("a", "w0.0", 10s).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(why));
  EXPECT_THAT(std::string(why.message()), HasSubstr("cannot be summarized"));
  EXPECT_TRUE(digests_.Wait("a", "w0.1", 10s).ok());
  EXPECT_TRUE(absl::IsNotFound(digests_.Wait("a", "w0.2", 10s).status())) << "it has no trace";
}

TEST_F(TraceDigestsTest, OnlyTheNewestCaptureIsKept) {
  EXPECT_TRUE(absl::IsNotFound(digests_.Wait("a", "w0", 10s).status()));
  digests_.Begin(report_, {Trace()});
  ASSERT_TRUE(digests_.Wait("a", "w0", 10s).ok());
  digests_.Stop();
  EXPECT_TRUE(digests_.Wait("a", "w0", 0s).ok()) << "what is computed stays";
  report_.set_capture_id("b");
  digests_.Begin(report_, {Trace()});
  EXPECT_TRUE(absl::IsNotFound(digests_.Wait("a", "w0", 0s).status()));
  EXPECT_TRUE(digests_.Wait("b", "w0", 10s).ok());
}

// Regression: a capture that was armed while a large trace was read began to record late.
TEST_F(TraceDigestsTest, StoppingWaitsForNothing) {
  Notification begun, finish;
  TraceDigests digests([&](const TracePieces&, const std::string&, std::size_t,
                           const Cancellation&) -> absl::StatusOr<std::string> {
    begun.Notify();
    finish.WaitFor(10s);
    return absl::CancelledError("another capture has begun");
  });
  digests.Begin(report_, {Trace()});
  begun.Wait();
  digests.Stop();
  EXPECT_TRUE(absl::IsUnavailable(digests.Wait("a", "w0", 0s).status())) << "it still reads";
  finish.Notify();
  EXPECT_TRUE(absl::IsFailedPrecondition(digests.Wait("a", "w0", 10s).status()));
}

TEST_F(TraceDigestsTest, TheTracesMemoryIsNotKept) {
  const TracePieces trace = Trace();
  digests_.Begin(report_, {trace});
  ASSERT_TRUE(digests_.Wait("a", "w0", 10s).ok());
  EXPECT_EQ(trace.front().use_count(), 1);
}

TEST(EncodedDigest, StopsSoonAndFitsIntoAnAnswer) {
  Cancellation stop;
  stop.Cancel();
  const TracePieces trace = {
      std::make_shared<std::string>(FakeTrace(0, 1000, 200'000).SerializeAsString())};
  EXPECT_TRUE(absl::IsCancelled(EncodedDigest(trace, "w0", 64 << 10, stop).status()));
  EXPECT_TRUE(absl::IsNotFound(EncodedDigest({}, "w0", 64 << 10, stop).status()));
}

}  // namespace
}  // namespace strobe::session
