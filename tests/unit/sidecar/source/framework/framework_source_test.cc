#include "sidecar/source/framework/framework_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "collector/trace/xplane/summary.h"
#include "common/base/file_descriptor.h"
#include "tests/fakes/fake_profiler_server.h"
#include "tests/fakes/stepped_clock.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using session::Recording;
using testing::HasSubstr;
using testing::Not;

// The delay that a busy machine may cause.
constexpr Nanos kGuard = 1s;

class FrameworkSourceTest : public testing::Test {
 protected:
  v1::CapturePlan Plan(Nanos lead = 500ms, Nanos duration = 50ms) {
    v1::CapturePlan plan;
    plan.mutable_tracers()->set_host(2);
    plan.set_capture_id("uid-" + std::to_string(ToUnixNanos(clock_.WallNow())));
    plan.set_worker("w0");
    plan.set_instant_ns(ToUnixNanos(clock_.WallNow() + lead + kGuard));
    plan.set_duration_ns(duration.count());
    plan.set_guard_ns(kGuard.count());
    plan.set_deadline_ns(plan.instant_ns() + Nanos(30s).count());
    return plan;
  }
  Recording Record(std::vector<std::string> addresses, const std::string& shared = "") {
    FrameworkSource source(clock_, {std::move(addresses), shared, risks_});
    source.Probe(5s);  // The operator probes before it plans.
    return std::move(source.Record(Plan(), cancel_, terminate_, [this] { ++collecting_; }).front());
  }
  static Outcome OutcomeOf(const v1::ProcessReport& row) {
    return static_cast<Outcome>(row.outcome());
  }

  SteppedClock clock_;
  ServerRisks risks_{.nvidia_driver = "/no/driver"};
  FakeProfilerServer server_;
  Cancellation cancel_, terminate_;
  int collecting_ = 0;
};

TEST_F(FrameworkSourceTest, RecordsAndSaysOnceThatItCollects) {
  const Recording recording = Record({server_.address()});
  EXPECT_EQ(recording.outcome, Outcome::kOk) << recording.message;
  EXPECT_TRUE(xplane::Summarize(recording.xspace).ok());
  EXPECT_EQ(collecting_, 1);
  ASSERT_EQ(recording.processes.size(), 1u);
  const v1::ProcessReport& row = recording.processes[0];
  EXPECT_EQ(row.name(), server_.address());
  EXPECT_EQ(row.source(), v1::SOURCE_FRAMEWORK);
  EXPECT_EQ(row.outcome(), v1::OK);
  EXPECT_EQ(row.events(), 1u);
  EXPECT_GT(row.started_ns(), 0);
  EXPECT_GT(row.stopped_ns(), row.started_ns());
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
  second.Refuse({grpc::INTERNAL, "Another profiling session active."});
  const Recording recording = Record({server_.address(), second.address()});
  EXPECT_EQ(recording.outcome, Outcome::kBusy);
  EXPECT_THAT(recording.message, HasSubstr("1 of 2 processes"));
  EXPECT_THAT(recording.message, HasSubstr(second.address()));
  EXPECT_FALSE(recording.xspace.empty());
  ASSERT_EQ(recording.processes.size(), 2u);
  EXPECT_EQ(OutcomeOf(recording.processes[0]), Outcome::kOk);
  EXPECT_EQ(OutcomeOf(recording.processes[1]), Outcome::kBusy);
  EXPECT_EQ(recording.processes[1].started_ns(), 0);
}

TEST_F(FrameworkSourceTest, AMissingServerCostsTheOthersNothing) {
  const Recording recording = Record({"127.0.0.1:1", server_.address()});
  EXPECT_EQ(recording.outcome, Outcome::kNoSource);
  EXPECT_THAT(recording.message, HasSubstr("1 of 2 processes"));
  EXPECT_THAT(recording.message, HasSubstr("127.0.0.1:1"));
  EXPECT_EQ(xplane::Summarize(recording.xspace)->events, 1u);
  EXPECT_EQ(OutcomeOf(recording.processes[0]), Outcome::kNoSource);
  EXPECT_EQ(OutcomeOf(recording.processes[1]), Outcome::kOk);
}

TEST_F(FrameworkSourceTest, AProcessWithoutEventsIsNotHiddenByTheOthers) {
  FakeProfilerServer second;
  second.empty = true;
  const Recording recording = Record({server_.address(), second.address()});
  EXPECT_EQ(recording.outcome, Outcome::kNoHostEvents);
  EXPECT_THAT(recording.message, HasSubstr(second.address()));
}

TEST_F(FrameworkSourceTest, WhatIsNoTraceCostsOnlyItself) {
  FakeProfilerServer second;
  second.nonsense = true;
  const Recording recording = Record({server_.address(), second.address()});
  EXPECT_EQ(recording.outcome, Outcome::kProfilerStartFailed);
  EXPECT_THAT(recording.message, HasSubstr("sent no trace"));
  EXPECT_EQ(xplane::Summarize(recording.xspace)->events, 1u);
}

// XLA's profiler may take the GPU from a program that trains; see docs/how-to/trainers.md.
TEST_F(FrameworkSourceTest, DoesNotAskForTheGpusOfAProgramThatDidNotAnnounceItself) {
  const auto asks = [this](const std::string& driver, bool allowed) {
    risks_ = {.gpu_tracing_by_servers = allowed, .nvidia_driver = driver};
    FrameworkSource source(clock_, {{server_.address()}, "", risks_});
    v1::CapturePlan plan = Plan();
    plan.mutable_tracers()->set_device(1);
    const Recording recording = std::move(source.Record(plan, cancel_, terminate_, [] {}).front());
    const bool asked = server_.asked().opts().device_tracer_level() == 1;
    const std::string note = recording.processes.at(0).note();
    EXPECT_EQ(note.find("--gpu-tracing-by-servers") == std::string::npos, asked) << note;
    return asked;
  };
  EXPECT_TRUE(asks("/no/driver", false));
  EXPECT_FALSE(asks("/proc/self/maps", false));
  EXPECT_TRUE(asks("/proc/self/maps", true));
}

// A process that announced the server, and answers to a hold with a line that a test writes.
class AnnouncedServerTest : public FrameworkSourceTest {
 protected:
  AnnouncedServerTest() : directory_(mkdtemp(name_.data())) {
    const std::string path = directory_ + "/42-777.process";
    std::ofstream(path) << R"({"format": 1, "pid": 42, "began": 777, "framework": "jax",)"
                        << R"("version": "0.10.2", "channel": "server", "address": ")"
                        << "127.0.0.1" << server_.address().substr(server_.address().find(':'))
                        << R"(", "socket": "42.sock", "program": "t.py",)"
                        << R"("rank": null, "local_rank": null, "world_size": null, "steps": null,)"
                        << R"("is_launcher": false, "multiprocessing": null})";
    lock_ = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));  // It lives.
    EXPECT_EQ(flock(lock_.get(), LOCK_EX), 0);
    listener_ = FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string socket_path = directory_ + "/42.sock";
    std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size());
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    const timeval patience{20, 0};  // So that a test that fails ends.
    setsockopt(listener_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~AnnouncedServerTest() override { std::filesystem::remove_all(directory_); }

  // The row of the process, which answers with `line`, and not at all if it is empty.
  v1::ProcessReport RowOf(const std::string& line) {
    risks_ = {.nvidia_driver = "/proc/self/maps"};
    FrameworkOptions options{.addresses = {}, .risks = risks_, .announced_in = directory_};
    // On a busy machine an answer comes later than a trainer's may.
    if (!line.empty()) options.hold_for = 20s;
    FrameworkSource source(clock_, options);
    v1::CapturePlan plan = Plan();
    plan.mutable_tracers()->set_device(1);
    std::thread process([&] {
      const FileDescriptor client(accept(listener_.get(), nullptr, nullptr));
      char asked[10'000];
      EXPECT_GT(recv(client.get(), asked, sizeof asked, 0), 0);
      if (!line.empty()) (void)send(client.get(), line.data(), line.size(), MSG_NOSIGNAL);
      while (recv(client.get(), asked, sizeof asked, 0) > 0) continue;  // Until it is released.
    });
    const Recording recording = std::move(source.Record(plan, cancel_, terminate_, [] {}).front());
    process.join();
    EXPECT_EQ(recording.outcome, Outcome::kOk) << recording.message;
    return recording.processes.at(0);
  }
  bool asked_for_devices() { return server_.asked().opts().device_tracer_level() == 1; }

  std::string name_ = "/tmp/strobe-announced-XXXXXX";
  const std::string directory_;
  FileDescriptor lock_, listener_;
};

TEST_F(AnnouncedServerTest, IsAskedForGpusOnceTheProcessSaysThatItIsSafe) {
  EXPECT_EQ(RowOf("{\"state\": \"held\", \"leads\": true, \"safe\": true}\n").note(), "");
  EXPECT_TRUE(asked_for_devices());
  EXPECT_EQ(RowOf(R"({"state": "held", "safe": true, "note": "CUPTI stays attached"})"
                  "\n")
                .note(),
            "CUPTI stays attached");
  EXPECT_TRUE(asked_for_devices());
}

TEST_F(AnnouncedServerTest, IsNotAskedForGpusOtherwiseAndSaysWhy) {
  const std::string refused =
      R"({"state": "refused", "outcome": "ProfilerStartFailed", "message": "CUDA 12"})";
  EXPECT_THAT(RowOf(refused + "\n").note(), HasSubstr("was asked for no devices: CUDA 12"));
  EXPECT_FALSE(asked_for_devices());
  EXPECT_THAT(RowOf(R"({"state": "held", "safe": false, "message": "it used none"})"
                    "\n")
                  .note(),
              HasSubstr("was asked for no devices: it used none"));
  EXPECT_FALSE(asked_for_devices());
  EXPECT_THAT(RowOf("").note(), HasSubstr("did not answer in time"));
  EXPECT_FALSE(asked_for_devices());
  // An older package does not tell whether it is safe.
  EXPECT_THAT(RowOf("{\"state\": \"held\", \"leads\": true}\n").note(), HasSubstr("devices"));
  EXPECT_FALSE(asked_for_devices());
}

TEST_F(AnnouncedServerTest, IsNotSparedWhatAnotherFrameworkOfTheProcessRecords) {
  const std::string note =
      RowOf("{\"state\": \"held\", \"leads\": false, \"safe\": false}\n").note();
  EXPECT_THAT(note, Not(HasSubstr("was asked for no devices")));
  EXPECT_FALSE(asked_for_devices());
}

// Servers that cannot return the trace in their answer, and can write only to a shared directory.
class OldServerTest : public FrameworkSourceTest {
 protected:
  OldServerTest() {
    old_.writes_file = true;
    std::filesystem::current_path(cwd_);
  }
  ~OldServerTest() override {
    EXPECT_TRUE(std::filesystem::is_empty(cwd_)) << "the trainer's directory is not ours";
    std::filesystem::current_path("/");
    for (const auto& directory : {cwd_, shared_}) std::filesystem::remove_all(directory);
  }
  static std::string Directory() {
    std::string name = "/tmp/strobe-framework-XXXXXX";
    return mkdtemp(name.data());
  }

  const std::string cwd_ = Directory(), shared_ = Directory();
  FakeProfilerServer old_{FakeProfilerServer::From::kBefore2026};
};

TEST_F(OldServerTest, AnswersThroughTheSharedDirectory) {
  risks_.host_tracing_on_old_servers = true;
  const Recording recording = Record({old_.address()}, shared_);
  EXPECT_EQ(recording.outcome, Outcome::kOk) << recording.message;
  EXPECT_EQ(xplane::Summarize(recording.xspace)->events, 1u);
  EXPECT_TRUE(std::filesystem::is_empty(shared_)) << "nothing is left behind";
}

TEST_F(OldServerTest, IsToldWhatItNeeds) {
  const Recording recording = Record({old_.address()});
  EXPECT_EQ(recording.outcome, Outcome::kVersionMismatch);
  EXPECT_THAT(recording.message, HasSubstr("--shared-dir"));
  EXPECT_EQ(old_.asked().repository_root(), "/proc/strobe");
}

// jaxlib 0.5.0 to 0.8.3 without TensorFlow crashes when host annotations are recorded.
TEST_F(OldServerTest, IsNotAskedForHostAnnotations) {
  old_.writes_file = false;
  const Recording recording = Record({old_.address(), server_.address()});
  EXPECT_EQ(old_.asked().opts().host_tracer_level(), 0u);
  EXPECT_EQ(server_.asked().opts().host_tracer_level(), 2u);
  EXPECT_EQ(recording.outcome, Outcome::kVersionMismatch);
  EXPECT_THAT(recording.message, HasSubstr("host annotations"));
  EXPECT_THAT(recording.message, HasSubstr(old_.address()));
  EXPECT_EQ(xplane::Summarize(recording.xspace)->events, 2u) << "its devices are recorded";
}

TEST_F(OldServerTest, IsFineWithoutThem) {
  old_.writes_file = false;
  FrameworkSource source(clock_, {{old_.address()}});
  v1::CapturePlan plan = Plan();
  plan.mutable_tracers()->set_host(0);
  EXPECT_EQ(source.Record(plan, cancel_, terminate_, [] {}).front().outcome, Outcome::kOk);
}

TEST_F(OldServerTest, IsAskedWhereSomebodyAnswersForIt) {
  old_.writes_file = false;
  risks_.host_tracing_on_old_servers = true;
  EXPECT_EQ(Record({old_.address()}).outcome, Outcome::kOk);
  EXPECT_EQ(old_.asked().opts().host_tracer_level(), 2u);
}

// The wall clock is set by `by`, `at` after the plan was made, and not before the recording starts
// if that is after kSteppedStart. The recording ends more than two seconds later.
constexpr Nanos kSteppedStart = 600ms;
struct Step {
  Nanos at, by;
};
class ClockSteppedTest : public FrameworkSourceTest, public testing::WithParamInterface<Step> {
 protected:
  ClockSteppedTest() { server_.clock = &clock_; }
  Recording RecordWithStep(const Step& step) {
    plan_ = Plan(kSteppedStart, 100ms);
    FrameworkSource source(clock_, {{server_.address()}});
    const MonoTime armed = clock_.MonoNow();
    std::thread stepper([&] {
      std::this_thread::sleep_for(armed + step.at - clock_.MonoNow());
      // On a busy machine the recording starts later than it should.
      while (step.at > kSteppedStart && !server_.recording && clock_.MonoNow() < armed + 30s)
        std::this_thread::sleep_for(1ms);
      clock_.Step(step.by);
    });
    Recording recording = std::move(source.Record(plan_, cancel_, terminate_, [] {}).front());
    took_ = clock_.MonoNow() - armed;
    stepper.join();
    return recording;
  }
  Nanos Late(const v1::ProcessReport& row) const {
    return Nanos{row.started_ns() - (plan_.instant_ns() - plan_.guard_ns())};
  }

  v1::CapturePlan plan_;
  Nanos took_{};
};

// The start does not move, and the reported times are correct.
TEST_P(ClockSteppedTest, TheStartStaysWhereItWasMeant) {
  const Recording recording = RecordWithStep(GetParam());
  ASSERT_EQ(recording.processes.size(), 1u);
  const v1::ProcessReport& row = recording.processes[0];
  const bool meanwhile = GetParam().at > kSteppedStart;
  EXPECT_LT(std::chrono::abs(Late(row)), kGuard) << recording.message;
  EXPECT_EQ(recording.outcome, meanwhile ? Outcome::kLateStart : Outcome::kOk) << recording.message;
  EXPECT_LT(took_, 30s) << "a clock that was set back must not prolong the session";
  const Nanos raw{xplane::Summarize(recording.xspace)->started_ns - row.started_ns()};
  EXPECT_EQ(raw, recording.clock_set_at_start);
  const Nanos error = raw - (meanwhile ? Nanos{0} : GetParam().by);
  EXPECT_LT(std::chrono::abs(error), 1ms);
  if (!meanwhile) return;
  EXPECT_THAT(recording.message, HasSubstr("the wall clock was set by"));
  EXPECT_LT(std::chrono::abs(recording.clock_set_at_stop - GetParam().by), 1ms);
}

INSTANTIATE_TEST_SUITE_P(Steps, ClockSteppedTest,
                         testing::Values(Step{100ms, 1h}, Step{100ms, -1h}, Step{450ms, 1h},
                                         Step{450ms, -1h}, Step{750ms, 1h}, Step{750ms, -1h}));

TEST_F(FrameworkSourceTest, CancelEndsItQuickly) {
  FrameworkSource source(clock_, {{server_.address()}});
  std::thread canceller([this] {
    std::this_thread::sleep_for(400ms);
    cancel_.Cancel();
  });
  const MonoTime began = clock_.MonoNow();
  const Recording recording =
      std::move(source.Record(Plan(50ms, 20s), cancel_, terminate_, [] {}).front());
  canceller.join();
  EXPECT_LT(clock_.MonoNow() - began, 10s);
  EXPECT_EQ(recording.outcome, Outcome::kCancelled);
}

TEST_F(FrameworkSourceTest, TerminateKeepsWhatWasRecorded) {
  FrameworkSource source(clock_, {{server_.address()}});
  std::thread terminator([this] {
    while (!server_.recording) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(kGuard + 100ms);  // Part of the window is over.
    terminate_.Cancel();
  });
  const Recording recording =
      std::move(source.Record(Plan(50ms, 20s), cancel_, terminate_, [] {}).front());
  terminator.join();
  EXPECT_EQ(recording.outcome, Outcome::kOk);
  EXPECT_FALSE(recording.xspace.empty());
}

// A server that has a TPU and continuous profiling, which is on.
class ServerLooksBackTest : public FrameworkSourceTest {
 protected:
  explicit ServerLooksBackTest(bool of_another = false) {
    if (of_another) server_.BeginSession({});
    source_.emplace(
        clock_, FrameworkOptions{
                    .addresses = {server_.address()}, .risks = risks_, .flight_recorder = true});
    EXPECT_TRUE(RecordsAlwaysSoon());
  }
  bool RecordsAlwaysSoon() {
    const MonoTime until = clock_.MonoNow() + 20s;
    while (!server_.records_always() && clock_.MonoNow() < until) std::this_thread::sleep_for(1ms);
    return server_.records_always();
  }
  Recording LookBack(Nanos look_back, Nanos duration = 50ms) {
    v1::CapturePlan plan = Plan(500ms, duration);
    plan.mutable_tracers()->set_device(1);
    plan.set_expects_device(true);
    plan.set_look_back_ns(look_back.count());
    return std::move(source_->Record(plan, cancel_, terminate_, [this] { ++collecting_; }).front());
  }

  std::optional<FrameworkSource> source_;
};

TEST_F(ServerLooksBackTest, TakesASnapshotInsteadOfARecording) {
  const Recording recording = LookBack(300ms);
  EXPECT_EQ(recording.outcome, Outcome::kOk) << recording.message;
  EXPECT_EQ(collecting_, 1);
  const v1::ProcessReport& row = recording.processes.at(0);
  EXPECT_EQ(row.reached_back_ns(), Nanos(300ms).count());
  EXPECT_THAT(row.note(), HasSubstr("without annotations"));
  EXPECT_GT(row.events(), 100u);
  EXPECT_EQ(server_.profiles, 0);
  EXPECT_EQ(server_.sessions, 1) << "the server goes on by itself";
}

TEST_F(ServerLooksBackTest, SaysHowFarBackTheSessionGoes) {
  const Recording recording = LookBack(10s);
  EXPECT_EQ(recording.outcome, Outcome::kOk) << recording.message;
  EXPECT_GT(recording.processes.at(0).reached_back_ns(), Nanos(300ms).count());
  EXPECT_LT(recording.processes.at(0).reached_back_ns(), Nanos(10s).count());
}

TEST_F(ServerLooksBackTest, EndsItsSessionForARecording) {
  const Recording recording = LookBack(0s);
  EXPECT_EQ(recording.outcome, Outcome::kOk) << recording.message;
  EXPECT_FALSE(recording.processes.at(0).has_reached_back_ns());
  EXPECT_EQ(server_.profiles, 1);
  EXPECT_TRUE(RecordsAlwaysSoon());
  EXPECT_EQ(server_.sessions, 2);
}

TEST_F(ServerLooksBackTest, SaysThatTheSnapshotIsEmpty) {
  server_.tpu_idles = true;
  const Recording recording = LookBack(300ms);
  EXPECT_EQ(recording.outcome, Outcome::kNoDeviceActivity);
  EXPECT_THAT(recording.message, HasSubstr("no activity of TPUs in the window or in 300ms before"));
  EXPECT_EQ(recording.processes.at(0).reached_back_ns(), 0);
}

TEST_F(ServerLooksBackTest, SaysThatTheServerFailed) {
  server_.loses_session = true;
  const Recording recording = LookBack(300ms);
  EXPECT_EQ(recording.outcome, Outcome::kProfilerStartFailed);
  EXPECT_THAT(recording.message, HasSubstr("Failed to collect profile data"));
  EXPECT_TRUE(RecordsAlwaysSoon());
  EXPECT_EQ(server_.sessions, 2);
}

TEST_F(ServerLooksBackTest, TakesTheSnapshotEarlierIfItIsEnded) {
  std::thread terminator([this] {
    std::this_thread::sleep_for(500ms + kGuard + 100ms);  // Part of the window is over.
    terminate_.Cancel();
  });
  const Recording recording = LookBack(300ms, 1min);
  terminator.join();
  EXPECT_EQ(recording.outcome, Outcome::kOk) << recording.message;
  EXPECT_EQ(recording.processes.at(0).reached_back_ns(), Nanos(300ms).count());
}

TEST_F(ServerLooksBackTest, TakesNoneIfItIsCancelled) {
  cancel_.Cancel();
  EXPECT_EQ(LookBack(300ms).outcome, Outcome::kCancelled);
  EXPECT_EQ(collecting_, 1);
  EXPECT_TRUE(server_.records_always());
}

class ServerOfAnotherTest : public ServerLooksBackTest {
 protected:
  ServerOfAnotherTest() : ServerLooksBackTest(/*of_another=*/true) {}
};

TEST_F(ServerOfAnotherTest, IsBusyAndSaysWhyItDoesNotReachBack) {
  const MonoTime until = clock_.MonoNow() + 20s;
  Recording recording;
  do {
    recording = LookBack(300ms);
  } while (recording.processes.at(0).note().find("not begun") != std::string::npos &&
           clock_.MonoNow() < until);
  EXPECT_EQ(recording.outcome, Outcome::kBusy) << recording.message;
  EXPECT_THAT(recording.processes.at(0).note(),
              HasSubstr("does not reach back: " + server_.address() +
                        ": continuous profiling of another client"));
  source_.reset();
  EXPECT_TRUE(server_.records_always());
}

TEST_F(FrameworkSourceTest, ProbeSaysWhoListens) {
  FrameworkSource source(clock_, {{server_.address(), "127.0.0.1:1"}});
  const auto sources = source.Probe(2s);
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_TRUE(sources[0].ready());
  EXPECT_FALSE(sources[1].ready());
  EXPECT_EQ(sources[1].detail(), "nothing is listening");
}

}  // namespace
}  // namespace strobe::source
