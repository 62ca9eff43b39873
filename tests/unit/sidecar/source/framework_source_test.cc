#include "sidecar/source/framework_source.h"

#include <gmock/gmock.h>

#include "collector/xplane/summary.h"
#include "tests/fakes/fake_profiler_server.h"

namespace strobe {
namespace {

using namespace std::chrono_literals;
using session::Recording;
using testing::HasSubstr;

class FrameworkSourceTest : public testing::Test {
 protected:
  v1::CapturePlan Plan(Nanos lead = 100ms, Nanos duration = 50ms) {
    v1::CapturePlan plan;
    plan.set_capture_id("uid-" + std::to_string(ToUnixNanos(clock_.WallNow())));
    plan.set_worker("w0");
    plan.set_instant_ns(ToUnixNanos(clock_.WallNow() + lead));
    plan.set_duration_ns(duration.count());
    plan.set_guard_ns(Nanos(5ms).count());
    plan.set_deadline_ns(plan.instant_ns() + Nanos(30s).count());
    return plan;
  }
  Recording Record(std::vector<std::string> addresses, const std::string& shared = "") {
    FrameworkSource source(clock_, {std::move(addresses), shared});
    return source.Record(Plan(), cancel_, terminate_, [this] { ++collecting_; });
  }

  SystemClock clock_;
  FakeProfilerServer server_;
  Cancellation cancel_, terminate_;
  int collecting_ = 0;
};

TEST_F(FrameworkSourceTest, RecordsAndSaysOnceThatItCollects) {
  const Recording recording = Record({server_.address()});
  EXPECT_EQ(recording.outcome, Outcome::kOk) << recording.message;
  EXPECT_TRUE(xplane::Summarize(recording.xspace).ok());
  EXPECT_EQ(collecting_, 1);
}

TEST_F(FrameworkSourceTest, JoinsTheProcessesOfAWorker) {
  FakeProfilerServer second;
  const Recording recording = Record({server_.address(), second.address()});
  const auto summary = xplane::Summarize(recording.xspace);
  EXPECT_EQ(summary->planes.size(), 4u);
  EXPECT_EQ(summary->planes[0].name, "/host:CPU [" + server_.address() + "]");
}

TEST_F(FrameworkSourceTest, KeepsWhatOneProcessRecordedWhenTheOtherRefused) {
  FakeProfilerServer second;
  second.refusal = grpc::Status(grpc::INTERNAL, "Another profiling session active.");
  const Recording recording = Record({server_.address(), second.address()});
  EXPECT_EQ(recording.outcome, Outcome::kBusy);
  EXPECT_THAT(recording.message, HasSubstr(second.address()));
  EXPECT_FALSE(recording.xspace.empty());
}

TEST_F(FrameworkSourceTest, FallsBackToTheSharedDirectoryForOldServers) {
  std::string name = "/tmp/strobe-shared-XXXXXX";
  const std::string shared = mkdtemp(name.data());
  server_.old = true;
  const Recording recording = Record({server_.address()}, shared);
  EXPECT_EQ(recording.outcome, Outcome::kOk) << recording.message;
  EXPECT_EQ(xplane::Summarize(recording.xspace)->events, 1u);
  EXPECT_TRUE(std::filesystem::is_empty(shared)) << "nothing is left behind";
  std::filesystem::remove_all(shared);
}

TEST_F(FrameworkSourceTest, SaysWhatOldServersNeed) {
  server_.old = true;
  std::string name = "/tmp/strobe-cwd-XXXXXX";
  const std::string cwd = mkdtemp(name.data());
  std::filesystem::current_path(cwd);
  const Recording recording = Record({server_.address()});
  EXPECT_EQ(recording.outcome, Outcome::kVersionMismatch);
  EXPECT_THAT(recording.message, HasSubstr("--shared-dir"));
}

TEST_F(FrameworkSourceTest, CancelEndsItQuickly) {
  FrameworkSource source(clock_, {{server_.address()}, ""});
  std::thread canceller([this] {
    std::this_thread::sleep_for(100ms);
    cancel_.Cancel();
  });
  const MonoTime began = clock_.MonoNow();
  const Recording recording = source.Record(Plan(50ms, 20s), cancel_, terminate_, [] {});
  canceller.join();
  EXPECT_LT(clock_.MonoNow() - began, 10s);
  EXPECT_EQ(recording.outcome, Outcome::kCancelled);
}

TEST_F(FrameworkSourceTest, TerminateKeepsWhatWasRecorded) {
  FrameworkSource source(clock_, {{server_.address()}, ""});
  std::thread terminator([this] {
    std::this_thread::sleep_for(100ms);
    terminate_.Cancel();
  });
  const Recording recording = source.Record(Plan(50ms, 20s), cancel_, terminate_, [] {});
  terminator.join();
  EXPECT_EQ(recording.outcome, Outcome::kOk);
  EXPECT_FALSE(recording.xspace.empty());
}

TEST_F(FrameworkSourceTest, ProbeSaysWhoListens) {
  FrameworkSource source(clock_, {{server_.address(), "127.0.0.1:1"}, ""});
  const auto sources = source.Probe(2s);
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_TRUE(sources[0].ready());
  EXPECT_FALSE(sources[1].ready());
  EXPECT_EQ(sources[1].detail(), "nobody listens");
}

}  // namespace
}  // namespace strobe
