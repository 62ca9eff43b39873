#include "sidecar/source/inproc/inproc_call.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/file_descriptor.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Announcement Torch() {
  Announcement process;
  process.framework = "torch";
  process.program = "train.py";
  process.pid = 42;
  process.socket = "42.sock";
  return process;
}

TEST(InprocRequest, AsksForTheWindowWithItsGuards) {
  v1::CapturePlan plan;
  plan.set_capture_id("id");
  plan.set_instant_ns(1'000'000'000);
  plan.set_duration_ns(200'000'000);
  plan.set_guard_ns(5'000'000);
  plan.mutable_tracers()->set_host(2);
  plan.mutable_tracers()->set_python(1);
  plan.mutable_tracers()->set_memory(true);
  plan.set_abort_memory_percent(95);
  const std::string line = InprocRequest(plan, Torch(), {.max_bytes = 1 << 20});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto request = nlohmann::json::parse(line);
  EXPECT_EQ(request["op"], "capture");
  EXPECT_EQ(request["framework"], "torch");
  EXPECT_EQ(request["start_ns"], 995'000'000);
  EXPECT_EQ(request["duration_ns"], 210'000'000);
  EXPECT_EQ(request["tracers"]["host"], 2);
  EXPECT_EQ(request["torch"], nlohmann::json::parse(R"({"shapes": false, "stacks": true,
      "memory": true, "flops": false, "modules": false})"));
  EXPECT_EQ(request["max_bytes"], 1 << 20);
  EXPECT_EQ(request["may_stall"], false);
  EXPECT_EQ(request["tell_memory"], true);
  EXPECT_FALSE(request.contains("step"));
}

TEST(InprocRequest, TellsModesSoThatOlderPackagesTakeThem) {
  v1::CapturePlan plan;
  plan.mutable_tracers()->set_device(2);
  plan.mutable_tracers()->set_detach(true);
  auto request = nlohmann::json::parse(InprocRequest(plan, Torch(), {}));
  EXPECT_EQ(request["tracers"]["device"], 1) << "a package before modes refuses more";
  EXPECT_EQ(request["tracers"]["kernels_only"], true);
  EXPECT_EQ(request["tracers"]["detach"], true);
  plan.mutable_tracers()->set_device(5);
  request = nlohmann::json::parse(InprocRequest(plan, Torch(), {}));
  EXPECT_EQ(request["tracers"]["kernels_only"], false);
}

TEST(InprocRequest, SaysThatTheProgramMayStandStill) {
  const auto request =
      nlohmann::json::parse(InprocRequest({}, Torch(), {.max_bytes = 1, .may_stall = true}));
  EXPECT_EQ(request["may_stall"], true);
}

TEST(InprocRequest, BoundsThePauseOnlyIfThePlanDoes) {
  v1::CapturePlan plan;
  EXPECT_FALSE(nlohmann::json::parse(InprocRequest(plan, Torch(), {})).contains("max_pause_ns"));
  plan.set_max_pause_ns(500'000'000);
  EXPECT_EQ(nlohmann::json::parse(InprocRequest(plan, Torch(), {}))["max_pause_ns"], 500'000'000);
}

TEST(InprocRequest, AsksForStepsByTheirNumbers) {
  v1::CapturePlan plan;
  plan.set_steps(5);
  plan.set_first_step(120);
  plan.set_step_loop("train");
  plan.set_steps_by_ns(77);
  const auto request = nlohmann::json::parse(InprocRequest(plan, Torch(), {.max_bytes = 1}));
  EXPECT_EQ(request["step"],
            (nlohmann::json{{"loop", "train"}, {"first", 120}, {"count", 5}, {"by_ns", 77}}));
}

TEST(ReadInprocLine, FollowsARecordingToItsEnd) {
  InprocAnswer answer;
  EXPECT_FALSE(ReadInprocLine(
      R"({"state": "prepared", "note": "one thread only", "rank": 9, "local_rank": 1})", "w",
      answer));
  EXPECT_FALSE(ReadInprocLine(R"({"state": "recording", "started_ns": 7})", "w", answer));
  EXPECT_FALSE(ReadInprocLine(R"({"state": "stopped", "stop_took_ns": 9})", "w", answer));
  EXPECT_TRUE(ReadInprocLine(
      R"({"state": "done", "file": "t.pt.trace.json", "format": "kineto", "engine": {"iterations": 3}})",
      "w", answer));
  EXPECT_EQ(answer.verdict.outcome, Outcome::kOk);
  EXPECT_TRUE(answer.recorded);
  ASSERT_TRUE(answer.engine);
  EXPECT_EQ(answer.engine->iterations(), 3u);
  EXPECT_EQ(answer.file, "t.pt.trace.json");
  EXPECT_EQ(answer.note, "one thread only");
  ASSERT_TRUE(answer.rank);
  EXPECT_EQ(answer.rank->rank(), 9u);
  EXPECT_EQ(answer.rank->local_rank(), 1u);
  EXPECT_EQ(answer.started_ns, 7);
  EXPECT_EQ(answer.stop_took_ns, 9);
}

TEST(ReadInprocLine, ARecordingThatEndedEarlyIsKept) {
  InprocAnswer answer;
  EXPECT_TRUE(ReadInprocLine(
      R"({"state": "done", "file": "t.xplane.pb", "format": "xspace", "outcome": "Truncated", "message": "why"})",
      "w", answer));
  EXPECT_TRUE(answer.recorded);
  EXPECT_EQ(answer.verdict.outcome, Outcome::kTruncated);
  EXPECT_EQ(answer.verdict.message, "w: why");
}

TEST(ReadInprocLine, ARefusalHasItsReason) {
  InprocAnswer answer;
  EXPECT_TRUE(ReadInprocLine(
      R"({"state": "refused", "outcome": "Busy", "message": "profiles itself"})", "w", answer));
  EXPECT_EQ(answer.verdict.outcome, Outcome::kBusy);
  EXPECT_EQ(answer.verdict.message, "w: profiles itself");
  // A process may not claim just anything.
  EXPECT_TRUE(ReadInprocLine(R"({"state": "failed", "outcome": "Ok"})", "w", answer));
  EXPECT_EQ(answer.verdict.outcome, Outcome::kProfilerStartFailed);
}

TEST(ReadInprocLine, AFrameworkMayBeAside) {
  InprocAnswer answer;
  EXPECT_TRUE(ReadInprocLine(R"({"state":"refused","outcome":"VersionMismatch","message":"old",
                                 "aside":true})",
                             "p", answer));
  EXPECT_TRUE(answer.aside);
  EXPECT_EQ(answer.verdict.outcome, Outcome::kVersionMismatch);
  answer = {};
  EXPECT_TRUE(ReadInprocLine(R"({"state":"refused","outcome":"Busy","aside":1})", "p", answer));
  EXPECT_FALSE(answer.aside);
}

TEST(ReadInprocLine, HostileLinesEndTheCall) {
  for (const char* line : {"", "x", "[]", "7", R"({"state": "done"})",
                           R"({"state": "done", "file": "../x.pt.trace.json", "format": "kineto"})",
                           R"({"state": "done", "file": ".x.pt.trace.json", "format": "kineto"})",
                           R"({"state": "done", "file": "x", "format": "elf"})",
                           R"({"state": "done", "file": "1-1.process", "format": "kineto"})",
                           R"({"state": "done", "file": "x.xplane.pb", "format": "kineto"})",
                           R"({"state": "done", "file": 7, "format": "kineto"})"}) {
    InprocAnswer answer;
    EXPECT_TRUE(ReadInprocLine(line, "w", answer)) << line;
    EXPECT_FALSE(answer.recorded) << line;
    EXPECT_EQ(answer.verdict.outcome, Outcome::kProfilerStartFailed) << line;
  }
}

// A process whose behaviour a test writes.
class CallProcessTest : public testing::Test {
 protected:
  CallProcessTest() : directory_(mkdtemp(name_.data())) {}
  ~CallProcessTest() override {
    if (process_.joinable()) process_.join();
    std::filesystem::remove_all(directory_);
  }

  // Serves one connection.
  void Serve(std::function<void(int)> behave) {
    listener_ = FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = directory_ + "/42.sock";
    std::memcpy(address.sun_path, path.c_str(), path.size());
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(listener_.get(), 1), 0);
    process_ = std::thread([this, behave = std::move(behave)] {
      const FileDescriptor client(accept(listener_.get(), nullptr, nullptr));
      behave(client.get());
    });
  }
  static std::string Read(int client) {
    char bytes[10'000];
    const ssize_t size = recv(client, bytes, sizeof bytes, 0);
    return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : "";
  }
  static void Say(int client, std::string_view text) {
    (void)send(client, text.data(), text.size(), MSG_NOSIGNAL);
  }
  InprocAnswer Call(Nanos deadline = 10s) {
    const auto until = std::chrono::steady_clock::now() + deadline;
    return CallProcess(
        directory_, Torch(), "request\n", cancel_, terminate_,
        {.until_deadline = [until]() -> Nanos { return until - std::chrono::steady_clock::now(); },
         .stopped = [this] { ++stopped_; }});
  }

  std::string name_ = "/tmp/strobe-call-XXXXXX";
  const std::string directory_;
  FileDescriptor listener_;
  std::thread process_;
  Cancellation cancel_, terminate_;
  int stopped_ = 0;
};

TEST_F(CallProcessTest, ReadsLinesHoweverTheyArrive) {
  Serve([](int client) {
    EXPECT_EQ(Read(client), "request\n");
    Say(client, "{\"state\": \"prep");
    std::this_thread::sleep_for(30ms);
    Say(client,
        "ared\"}\n{\"state\": \"stopped\"}\n{\"state\": \"done\", \"file\": \"t.pt.trace.json\", ");
    Say(client, "\"format\": \"kineto\"}\n");
  });
  const InprocAnswer answer = Call();
  EXPECT_TRUE(answer.recorded) << answer.verdict.message;
  EXPECT_EQ(stopped_, 1);
}

TEST_F(CallProcessTest, TerminateAsksForTheEndOnce) {
  std::string asked;
  Serve([&](int client) {
    while (asked.find("stop") == std::string::npos) asked += Read(client);
    Say(client, R"({"state": "done", "file": "t.pt.trace.json", "format": "kineto"})"
                "\n");
  });
  terminate_.Cancel();
  EXPECT_TRUE(Call().recorded);
  process_.join();
  EXPECT_EQ(asked, "request\n{\"op\":\"stop\"}\n");
  EXPECT_EQ(stopped_, 1);
}

TEST_F(CallProcessTest, CancellationClosesTheConnection) {
  std::atomic<bool> closed{false};
  Serve([&](int client) {
    Read(client);
    cancel_.Cancel();
    closed = Read(client).empty();
  });
  EXPECT_EQ(Call().verdict.outcome, Outcome::kCancelled);
  process_.join();
  EXPECT_TRUE(closed);
}

TEST_F(CallProcessTest, ARefusalThatCameBeforeTheRequestIsRead) {
  Serve([](int client) {
    Say(client, R"({"state": "refused", "outcome": "Busy", "message": "another capture"})"
                "\n");
    shutdown(client, SHUT_RD);
    while (!Read(client).empty()) continue;
  });
  // More than fits into the socket, so that sending fails however fast the process is.
  const InprocAnswer answer = CallProcess(directory_, Torch(), std::string(8 << 20, 'x'), cancel_,
                                          terminate_, {[] { return Nanos{10s}; }, [] {}});
  EXPECT_EQ(answer.verdict.outcome, Outcome::kBusy) << answer.verdict.message;
}

TEST_F(CallProcessTest, AProcessThatEndsBeforeItHasSavedItsTraceIsTold) {
  Serve([](int client) {
    Read(client);
    Say(client, "{\"state\": \"stopped\", \"stopped_ns\": 7}\n");
  });
  const InprocAnswer answer = Call();
  EXPECT_EQ(answer.verdict.outcome, Outcome::kWorkerLost);
  EXPECT_THAT(answer.verdict.message, HasSubstr("ended before it had saved its trace"));
}

TEST_F(CallProcessTest, AProcessThatDiesHangsOrFloodsIsTold) {
  Serve([](int client) { Read(client); });
  InprocAnswer answer = Call();
  EXPECT_EQ(answer.verdict.outcome, Outcome::kWorkerLost);
  EXPECT_THAT(answer.verdict.message, HasSubstr("torch in train.py 42: was lost"));
  process_.join();
  std::filesystem::remove(directory_ + "/42.sock");
  Serve([](int client) {
    Read(client);
    Read(client);  // Until the caller hangs up.
  });
  EXPECT_EQ(Call(50ms).verdict.outcome, Outcome::kDeadlineExceeded);
  process_.join();
  std::filesystem::remove(directory_ + "/42.sock");
  Serve([](int client) {
    Read(client);
    Say(client, std::string(1 << 20, 'x'));
  });
  EXPECT_EQ(Call().verdict.outcome, Outcome::kWorkerLost);
  EXPECT_EQ(stopped_, 3);
}

TEST_F(CallProcessTest, NobodyThere) {
  EXPECT_EQ(Call().verdict.outcome, Outcome::kNoSource);
  EXPECT_EQ(stopped_, 1);
}

}  // namespace
}  // namespace strobe::source
