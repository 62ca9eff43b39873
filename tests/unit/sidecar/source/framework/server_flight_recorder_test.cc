#include "sidecar/source/framework/server_flight_recorder.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/fakes/fake_profiler_server.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class ServerFlightRecorderTest : public testing::Test {
 protected:
  void Begin(const std::string& address) {
    address_ = address;
    recorder_.emplace([address] { return std::vector<std::string>{address}; }, state_, 10ms);
  }
  // True once `condition` holds.
  template <typename Condition>
  static bool Soon(const Condition& condition) {
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!condition() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(1ms);
    return condition();
  }
  bool RecordsSoon() {
    return Soon([this] { return recorder_->WhyNot(address_).empty(); });
  }
  std::string WhyNot() {
    const std::string unknown = recorder_->WhyNot("elsewhere:1");
    EXPECT_TRUE(Soon([&] { return recorder_->WhyNot(address_) != unknown; }));
    return recorder_->WhyNot(address_);
  }

  std::string address_, state_;
  FakeProfilerServer server_;
  std::optional<ServerFlightRecorder> recorder_;
};

TEST_F(ServerFlightRecorderTest, BeginsOneSessionAndEndsIt) {
  Begin(server_.address());
  ASSERT_TRUE(RecordsSoon());
  std::this_thread::sleep_for(50ms);  // It looks again.
  EXPECT_EQ(server_.sessions, 1);
  EXPECT_TRUE(recorder_->WhyNot(address_).empty());
  recorder_.reset();
  EXPECT_FALSE(server_.records_always());
}

TEST_F(ServerFlightRecorderTest, AsksForDevicesInCircularBuffersOnly) {
  Begin(server_.address());
  ASSERT_TRUE(RecordsSoon());
  const tensorflow::ProfileOptions options = server_.session().opts();
  EXPECT_EQ(options.version(), 1u);
  EXPECT_EQ(options.device_tracer_level(), 1u);
  EXPECT_EQ(options.host_tracer_level(), 0u);
  EXPECT_EQ(options.python_tracer_level(), 0u);
  EXPECT_EQ(options.start_timestamp_ns(), 0u);
  EXPECT_TRUE(options.raise_error_on_start_failure());
  EXPECT_TRUE(options.advanced_configuration().at("tpu_circular_buffer_tracing").bool_value());
}

TEST_F(ServerFlightRecorderTest, LeavesTheSessionOfAnotherClientAlone) {
  server_.BeginSession({});
  Begin(server_.address());
  EXPECT_THAT(WhyNot(), HasSubstr("another client"));
  {
    const ServerFlightRecorder::Pause pause(*recorder_);
    recorder_->EndSessions();
  }
  recorder_.reset();
  EXPECT_TRUE(server_.records_always());
  EXPECT_EQ(server_.sessions, 1);
}

TEST_F(ServerFlightRecorderTest, BeginsWhenTheOtherClientHasEnded) {
  server_.BeginSession({});
  Begin(server_.address());
  EXPECT_THAT(WhyNot(), HasSubstr("another client"));
  server_.EndSession();
  EXPECT_TRUE(RecordsSoon());
  EXPECT_EQ(server_.sessions, 2);
}

TEST_F(ServerFlightRecorderTest, BeginsNoSessionThatCannotBeEnded) {
  const FakeProfilerServer old(FakeProfilerServer::From::kBefore2026);
  Begin(old.address());
  EXPECT_THAT(WhyNot(), HasSubstr("has no continuous profiling"));
  const FakeProfilerServer early(FakeProfilerServer::From::kWithoutStop);
  Begin(early.address());
  EXPECT_THAT(WhyNot(), HasSubstr("has no continuous profiling"));
  EXPECT_EQ(early.sessions, 0);
}

TEST_F(ServerFlightRecorderTest, WaitsForAServer) {
  Begin("127.0.0.1:1");
  EXPECT_THAT(WhyNot(), HasSubstr("does not answer"));
}

TEST_F(ServerFlightRecorderTest, EndsItsSessionForACaptureAndBeginsItAgain) {
  Begin(server_.address());
  ASSERT_TRUE(RecordsSoon());
  {
    const ServerFlightRecorder::Pause pause(*recorder_);
    recorder_->EndSessions();
    EXPECT_FALSE(server_.records_always());
    EXPECT_THAT(WhyNot(), HasSubstr("has ended"));
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(server_.records_always()) << "none is begun meanwhile";
  }
  EXPECT_TRUE(RecordsSoon());
  EXPECT_EQ(server_.sessions, 2);
}

// As after a restart of the trainer.
TEST_F(ServerFlightRecorderTest, BeginsASessionThatWasLost) {
  Begin(server_.address());
  ASSERT_TRUE(RecordsSoon());
  server_.EndSession();
  EXPECT_TRUE(Soon([this] { return server_.sessions == 2; }));
  EXPECT_TRUE(RecordsSoon());
}

TEST_F(ServerFlightRecorderTest, DoesNotTakeASessionThatBeganDuringACapture) {
  Begin(server_.address());
  ASSERT_TRUE(RecordsSoon());
  {
    const ServerFlightRecorder::Pause pause(*recorder_);
    recorder_->EndSessions();
    server_.BeginSession({});
  }
  EXPECT_TRUE(Soon(
      [this] { return recorder_->WhyNot(address_).find("another client") != std::string::npos; }));
  recorder_.reset();
  EXPECT_TRUE(server_.records_always());
}

// A sidecar that crashes leaves its session behind.
class CrashedFlightRecorderTest : public ServerFlightRecorderTest {
 protected:
  CrashedFlightRecorderTest() {
    state_ = directory_ + "/flight-recorder";
    Begin(server_.address());
    EXPECT_TRUE(RecordsSoon());
    std::ifstream file(state_);
    left_ = std::string(std::istreambuf_iterator<char>(file), {});
    recorder_.reset();
    server_.BeginSession({});
  }
  ~CrashedFlightRecorderTest() override {
    recorder_.reset();
    std::filesystem::remove_all(directory_);
  }
  void BeginWithState(const std::string& state) {
    std::ofstream(state_) << state;
    Begin(server_.address());
  }

  std::string name_ = "/tmp/strobe-flight-XXXXXX";
  const std::string directory_ = mkdtemp(name_.data());
  std::string left_;
};

TEST_F(CrashedFlightRecorderTest, KnowsItsSessionAgain) {
  BeginWithState(left_);
  EXPECT_TRUE(RecordsSoon());
  EXPECT_EQ(server_.sessions, 2);
  {
    const ServerFlightRecorder::Pause pause(*recorder_);
    recorder_->EndSessions();
    EXPECT_FALSE(server_.records_always());
    server_.BeginSession({});
  }
  EXPECT_TRUE(Soon([this] { return !recorder_->WhyNot(address_).empty(); }));
  recorder_.reset();
  EXPECT_TRUE(server_.records_always()) << "the next one is of another client";
}

TEST_F(CrashedFlightRecorderTest, DoesNotTakeThatOfAnotherLifeOfTheServer) {
  BeginWithState(server_.address() + " 1\n");
  EXPECT_THAT(WhyNot(), HasSubstr("another client"));
}

TEST_F(CrashedFlightRecorderTest, HasNoSessionAfterAnOrderlyEnd) {
  std::ifstream file(state_);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "");
}

TEST_F(ServerFlightRecorderTest, EndsTheSessionOfAServerThatIsNoLongerItsBusiness) {
  std::atomic<bool> wanted{true};
  address_ = server_.address();
  recorder_.emplace(
      [&wanted, address = address_] {
        return wanted ? std::vector<std::string>{address} : std::vector<std::string>();
      },
      "", 10ms);
  ASSERT_TRUE(RecordsSoon());
  wanted = false;
  EXPECT_TRUE(Soon([this] { return !server_.records_always(); }));
  recorder_.reset();
}

}  // namespace
}  // namespace strobe::source
