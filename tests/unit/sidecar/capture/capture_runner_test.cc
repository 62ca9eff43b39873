#include "sidecar/capture/capture_runner.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "collector/trace/analysis/verdict.h"
#include "collector/trace/xplane/names.h"
#include "common/base/clock_steps.h"
#include "common/base/hash.h"
#include "sidecar/capture/trace_report.h"
#include "tests/fakes/fake_trace.h"
#include "tests/fakes/stepped_clock.h"

namespace strobe::session {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Records at once, without waiting for the instant, and returns a trace that covers the window.
class FakeSource final : public Source {
 public:
  std::vector<v1::Source> Probe(Nanos) override { return {}; }
  Nanos lead() const override { return 10ms; }
  std::vector<v1::StepPace> Steps() override {
    return steps ? std::vector{steps()} : std::vector<v1::StepPace>();
  }
  std::vector<Recording> Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                const Cancellation& terminate,
                                const std::function<void()>& collecting) override {
    ++records;
    recorded = plan;
    if (throws) throw std::runtime_error("no memory");
    for (Nanos left = hold; left > 0ns && !cancel.cancelled() && !terminate.cancelled();
         left -= 5ms)
      cancel.WaitFor(5ms);
    collecting();
    if (outcome != Outcome::kOk) return OneRecording({outcome, "words of the source", ""});
    const std::int64_t start = plan.instant_ns() - plan.guard_ns() + late.count();
    const std::int64_t stop = plan.instant_ns() + plan.duration_ns() + plan.guard_ns();
    std::vector<Recording> recordings;
    for (std::uint32_t i = 0; i < workers; ++i) {
      Recording& recording = recordings.emplace_back();
      recording.outcome = dropped ? Outcome::kEventsDropped : Outcome::kOk;
      recording.message = dropped ? "some are missing" : "";
      recording.xspace = FakeTrace(start, stop).SerializeAsString();
      recording.has_torch_options = torch;
      for (const std::string& name : originals) {
        recording.processes.emplace_back().set_name(name);
        recording.originals.push_back({name, "of_" + name, 0, FileDescriptor()});
      }
      if (workers == 1) return recordings;
      recording.rank.emplace().set_local_rank(i);
      recording.rank->set_rank(8 + i);
    }
    recordings.back().outcome = Outcome::kProfilerStartFailed;
    recordings.back().message = "the last one failed";
    recordings.back().xspace.clear();
    return recordings;
  }

  std::uint32_t workers = 1;  // The last one of several fails.

  bool dropped = false, torch = false;
  std::vector<std::string> originals;     // What processes with these names left.
  std::function<v1::StepPace()> steps{};  // Set before a capture is armed.
  v1::CapturePlan recorded{};
  std::atomic<int> records{0};
  std::atomic<bool> throws{false};
  Outcome outcome = Outcome::kOk;
  Nanos hold{};
  Nanos late{};
};

class FakeDelivery final : public Delivery {
 public:
  absl::Status CheckSpace(const v1::CapturePlan&) override { return room; }
  std::vector<absl::StatusOr<std::string>> Deliver(
      const v1::Report& report, std::vector<TracePieces> traces, const Cancellation& cancel,
      const std::function<void()>& uploading) override {
    for (const TracePieces& pieces : traces) {
      for (const auto& piece : pieces) bytes.append(*piece);
      written.push_back(!pieces.empty());
    }
    spooled = report.capture_id();
    uploading();
    return Resume(report, cancel);
  }
  bool CanResume(const v1::Report& report) override { return report.capture_id() == spooled; }
  std::vector<absl::StatusOr<std::string>> Resume(const v1::Report& report,
                                                  const Cancellation& cancel) override {
    const std::size_t count = TraceReports(report).size();
    const auto all = [count](absl::StatusOr<std::string> url) {
      return std::vector<absl::StatusOr<std::string>>(count, url);
    };
    if (hang && cancel.WaitFor(30s)) return all(absl::CancelledError("cancelled"));
    if (!status.ok()) return all(status);
    spooled.clear();
    std::vector<absl::StatusOr<std::string>> urls = all("file:///logs/x");
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (!written[i]) urls[i] = "";
    }
    return urls;
  }
  absl::StatusOr<std::string> DeliverOriginal(const v1::Report&, const Original& original,
                                              const Cancellation&) override {
    if (!original_status.ok()) return original_status;
    return original.container;
  }
  void OnEnd(const v1::Report& report) override { ended.push_back(report.capture_id()); }

  absl::Status room, status, original_status;
  std::atomic<bool> hang{false};
  std::string bytes, spooled;
  std::vector<bool> written;
  std::vector<std::string> ended;
};

// Returns the signs that the test has set.
class FakeMonitor final : public JobMonitor {
 public:
  void Begin(const v1::CapturePlan&) override { ++begun; }
  JobSigns Look() override {
    JobSigns signs{.memory_used = memory_used, .memory_limit = 100};
    // Steps take one millisecond, and longer after the test slows them down.
    const MonoTime now{std::chrono::steady_clock::now().time_since_epoch()};
    if (steps) signs.steps.push_back({"train", now - (slow ? 50ms : 1ms), now});
    return signs;
  }
  void End() override { ++ended; }

  std::atomic<int> begun{0}, ended{0};
  std::atomic<std::uint64_t> memory_used{0};
  std::atomic<bool> steps{false}, slow{false};
};

class CaptureRunnerTest : public testing::Test {
 protected:
  v1::CapturePlan Plan(const std::string& id, Nanos lead = 60ms) {
    v1::CapturePlan plan;
    plan.set_capture_id(id);
    plan.set_instant_ns(ToUnixNanos(clock_.WallNow() + lead));
    plan.set_duration_ns(Nanos(10ms).count());
    plan.set_guard_ns(Nanos(5ms).count());
    plan.set_logdir("/logs");
    plan.set_run("run");
    plan.set_worker("w0");
    plan.set_clock_offset_ns(77);
    plan.set_deadline_ns(plan.instant_ns() + Nanos(60s).count());
    return plan;
  }
  v1::Report WaitForEnd(const std::string& id) {
    v1::Report report = *runner_.Find(id);
    while (report.state() != v1::DONE) report = *runner_.WaitForChange(id, report.state(), 5s);
    return report;
  }

  SystemClock clock_;
  FakeSource source_;
  FakeDelivery delivery_;
  CaptureRunner runner_{clock_, source_, delivery_};
};

TEST_F(CaptureRunnerTest, RecordsDeliversAndReports) {
  ASSERT_TRUE(runner_.Arm(Plan("a")).accepted());
  EXPECT_EQ(runner_.holder(), "a");
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::OK) << report.message();
  EXPECT_TRUE(report.covers_window());
  EXPECT_EQ(report.bytes(), delivery_.bytes.size());
  EXPECT_EQ(report.sha256().size(), 64u);
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(delivery_.bytes));
  EXPECT_EQ(space.planes(2).name(), xplane::kStrobePlane)
      << "the trace can be aligned without the manifest";
  EXPECT_EQ(runner_.holder(), "");
}

TEST_F(CaptureRunnerTest, ACancelThatOvertakesItsArmHolds) {
  EXPECT_FALSE(runner_.Cancel("a", "its answer came too late"));
  const v1::ArmResponse response = runner_.Arm(Plan("a"));
  EXPECT_FALSE(response.accepted());
  EXPECT_EQ(response.refusal(), v1::CANCELLED);
  EXPECT_EQ(source_.records, 0);
}

TEST_F(CaptureRunnerTest, EachLocalRankIsAWorkerWithAReportOfItsOwn) {
  source_.workers = 3;
  ASSERT_TRUE(runner_.Arm(Plan("a")).accepted());
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::PROFILER_START_FAILED);
  EXPECT_EQ(report.message(),
            "2 of 3 workers of the pod were recorded as requested; w0.2: the last one failed");
  EXPECT_EQ(report.url(), "file:///logs/x");
  ASSERT_EQ(report.workers_size(), 3);
  for (int i = 0; i < 3; ++i) {
    const v1::Report& worker = report.workers(i);
    EXPECT_EQ(worker.state(), v1::DONE);
    EXPECT_EQ(worker.plan().worker(), "w0." + std::to_string(i));
    EXPECT_EQ(worker.rank().rank(), 8u + static_cast<std::uint32_t>(i));
    EXPECT_EQ(worker.outcome(), i < 2 ? v1::OK : v1::PROFILER_START_FAILED);
    EXPECT_EQ(worker.url().empty(), i == 2);
    EXPECT_EQ(worker.covers_window(), i < 2);
  }
  EXPECT_EQ(report.bytes(), delivery_.bytes.size());
  EXPECT_FALSE(report.covers_window());
}

TEST_F(CaptureRunnerTest, AWorkerThatCannotBeUploadedIsTold) {
  source_.workers = 2;
  delivery_.status = absl::PermissionDeniedError("not yours");
  ASSERT_TRUE(runner_.Arm(Plan("a")).accepted());
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.workers(0).outcome(), v1::UPLOAD_DENIED);
  EXPECT_EQ(report.workers(0).message(), "not yours");
  EXPECT_EQ(report.url(), "");
}

TEST_F(CaptureRunnerTest, ACaptureThatIsCancelledIsSoForAllWorkers) {
  source_.workers = 2;
  source_.hold = 10s;
  ASSERT_TRUE(runner_.Arm(Plan("a")).accepted());
  runner_.WaitForChange("a", v1::ARMED, 5s);
  runner_.Cancel("a", "enough");
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::CANCELLED);
  for (const v1::Report& worker : report.workers()) EXPECT_EQ(worker.outcome(), v1::CANCELLED);
}

TEST_F(CaptureRunnerTest, OptionsThatNobodyHasAreTold) {
  v1::CapturePlan plan = Plan("a");
  plan.mutable_tracers()->set_shapes(true);
  plan.mutable_tracers()->set_flops(true);
  runner_.Arm(plan);
  const v1::Report report = WaitForEnd("a");
  ASSERT_EQ(report.notes_size(), 1);
  EXPECT_THAT(report.notes(0), HasSubstr("tracers.shapes, tracers.flops were requested"));
  EXPECT_EQ(report.outcome(), v1::OK) << "the rest is as it was asked for";
  source_.torch = true;
  plan = Plan("b");
  plan.mutable_tracers()->set_shapes(true);
  runner_.Arm(plan);
  EXPECT_EQ(WaitForEnd("b").notes_size(), 0);
}

TEST_F(CaptureRunnerTest, OriginalsAreToldInTheRowsOfTheirProcesses) {
  source_.originals = {"p", "q"};
  runner_.Arm(Plan("a"));
  v1::Report report = WaitForEnd("a");
  ASSERT_EQ(report.processes_size(), 2);
  EXPECT_EQ(report.processes(0).original(), "of_p");
  EXPECT_EQ(report.processes(1).original(), "of_q");
  delivery_.original_status = absl::ResourceExhaustedError("too large");
  runner_.Arm(Plan("b"));
  report = WaitForEnd("b");
  EXPECT_EQ(report.outcome(), v1::OK) << "the capture is complete without them";
  EXPECT_EQ(report.processes(0).original(), "");
  EXPECT_EQ(report.processes(0).note(), "its original was not kept: too large");
}

// Otherwise the source would read the clocks again, and a step until then would move its window.
TEST_F(CaptureRunnerTest, TheSourceGetsTheReadingOfTheClocksThatItsPlanRefersTo) {
  v1::CapturePlan plan = Plan("a");
  const std::int64_t now = WallLessMonotonic(clock_).count(), ahead = Nanos(3s).count();
  // The clock was set back by three seconds since it was measured.
  plan.set_instant_ns(plan.instant_ns() + ahead);
  plan.set_deadline_ns(plan.deadline_ns() + ahead);
  plan.set_wall_less_monotonic_ns(now + ahead);
  ASSERT_TRUE(runner_.Arm(plan).accepted());
  WaitForEnd("a");
  const v1::CapturePlan& got = source_.recorded;
  EXPECT_NEAR(static_cast<double>(got.wall_less_monotonic_ns()), static_cast<double>(now), 1e6);
  EXPECT_EQ(got.instant_ns() - got.wall_less_monotonic_ns(),
            plan.instant_ns() - plan.wall_less_monotonic_ns());
}

TEST_F(CaptureRunnerTest, ArmingTwiceRecordsOnce) {
  const v1::CapturePlan plan = Plan("a");
  EXPECT_TRUE(runner_.Arm(plan).accepted());
  EXPECT_TRUE(runner_.Arm(plan).accepted());
  WaitForEnd("a");
  EXPECT_TRUE(runner_.Arm(plan).accepted());
  EXPECT_EQ(source_.records, 1);
}

TEST_F(CaptureRunnerTest, CancelDuringTheDelayNeverTouchesTheSource) {
  ASSERT_TRUE(runner_.Arm(Plan("a", 30s)).accepted());
  EXPECT_TRUE(runner_.Cancel("a", "changed my mind"));
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::CANCELLED);
  EXPECT_EQ(report.message(), "changed my mind");
  EXPECT_EQ(source_.records, 0);
  EXPECT_FALSE(runner_.Cancel("unknown", ""));
}

TEST_F(CaptureRunnerTest, CancelWhileRecordingDeliversNothing) {
  source_.hold = 30s;
  ASSERT_TRUE(runner_.Arm(Plan("a")).accepted());
  while (runner_.Find("a")->state() != v1::RECORDING) runner_.WaitForChange("a", v1::ARMED, 1s);
  runner_.Cancel("a", "enough");
  EXPECT_EQ(WaitForEnd("a").outcome(), v1::CANCELLED);
  EXPECT_EQ(delivery_.bytes, "");
}

TEST_F(CaptureRunnerTest, EndingEarlyShortensTheWindowAndKeepsTheTrace) {
  source_.hold = 30s;
  v1::CapturePlan plan = Plan("a");
  plan.set_duration_ns(Nanos(600s).count());
  plan.set_deadline_ns(plan.instant_ns() + Nanos(700s).count());
  const v1::ArmResponse armed = runner_.Arm(plan);
  ASSERT_TRUE(armed.accepted()) << armed.message();
  while (runner_.Find("a")->state() != v1::RECORDING) runner_.WaitForChange("a", v1::ARMED, 1s);
  while (ToUnixNanos(clock_.WallNow()) < plan.instant_ns() + Nanos(20ms).count()) usleep(1000);
  EXPECT_TRUE(runner_.Terminate("a"));
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::OK) << report.message();
  EXPECT_TRUE(report.covers_window());
  EXPECT_GE(report.plan().duration_ns(), Nanos(20ms).count());
  EXPECT_LT(report.plan().duration_ns(), Nanos(60s).count());
  EXPECT_NE(delivery_.bytes, "");
  EXPECT_FALSE(runner_.Terminate("a")) << "it has ended";
}

TEST_F(CaptureRunnerTest, TellsWhatTheSourceOrTheStoreSaid) {
  source_.outcome = Outcome::kBusy;
  runner_.Arm(Plan("a"));
  v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::BUSY);
  EXPECT_EQ(report.message(), "words of the source");
  source_.outcome = Outcome::kOk;
  delivery_.status = absl::PermissionDeniedError("not yours");
  runner_.Arm(Plan("b"));
  report = WaitForEnd("b");
  EXPECT_EQ(report.outcome(), v1::UPLOAD_DENIED);
  EXPECT_EQ(report.message(), "not yours");
  delivery_.status = absl::ResourceExhaustedError("full");
  runner_.Arm(Plan("c"));
  report = WaitForEnd("c");
  EXPECT_EQ(report.outcome(), v1::UPLOAD_FAILED);
  EXPECT_FALSE(report.logdir_unusable());
  delivery_.status = absl::NotFoundError("no such bucket");
  runner_.Arm(Plan("d"));
  report = WaitForEnd("d");
  EXPECT_EQ(report.outcome(), v1::UPLOAD_FAILED);
  EXPECT_TRUE(report.logdir_unusable()) << "another attempt would record in vain";
}

TEST_F(CaptureRunnerTest, AKeptTraceKeepsItsSizeAndChecksum) {
  delivery_.status = absl::UnavailableError("the store is away");
  runner_.Arm(Plan("a"));
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::UPLOAD_FAILED);
  EXPECT_EQ(report.bytes(), delivery_.bytes.size());
  Sha256 hash;
  hash.Update(delivery_.bytes);
  EXPECT_EQ(report.sha256(), hash.Hex());
}

TEST_F(CaptureRunnerTest, ALateTraceIsKeptUnlessItIsToBeDiscarded) {
  source_.late = 6ms;
  runner_.Arm(Plan("a"));
  v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::LATE_START);
  EXPECT_NE(report.url(), "");
  v1::CapturePlan plan = Plan("b");
  plan.set_discard_late(true);
  runner_.Arm(plan);
  EXPECT_EQ(WaitForEnd("b").url(), "");
}

TEST_F(CaptureRunnerTest, ATraceBeyondTheLimitIsNotUploaded) {
  v1::CapturePlan plan = Plan("a");
  plan.set_max_bytes(10);
  runner_.Arm(plan);
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::TRUNCATED);
  EXPECT_THAT(report.message(), HasSubstr("the limit is 10"));
  EXPECT_EQ(delivery_.bytes, "");
}

TEST_F(CaptureRunnerTest, DrainingLetsTheLiveCaptureFinishAndRefusesOthers) {
  source_.hold = 50ms;
  runner_.Arm(Plan("a"));
  std::thread drain([&] { EXPECT_TRUE(runner_.Drain(10s)); });
  v1::ArmResponse refused;
  do refused = runner_.Arm(Plan("b", 30s));
  while (refused.refusal() == v1::BUSY);
  EXPECT_FALSE(refused.accepted());
  drain.join();
  EXPECT_EQ(WaitForEnd("a").outcome(), v1::OK);
}

// Regression: where --grace was long for the sake of uploads, a pod whose trainer had ended waited
// that long for the start of a capture.
TEST_F(CaptureRunnerTest, DrainingWaitsLessForACaptureThatIsNotRecordedYet) {
  source_.hold = 30s;
  ASSERT_TRUE(runner_.Arm(Plan("a", 200ms)).accepted());
  EXPECT_FALSE(runner_.Drain(1min, 1ms)) << "it waits for its start";
  while (runner_.Find("a")->state() == v1::ARMED) runner_.WaitForChange("a", v1::ARMED, 1s);
  EXPECT_FALSE(runner_.Drain(1min, 1ms)) << "it records";
  EXPECT_EQ(runner_.Find("a")->state(), v1::RECORDING);
  runner_.Suspend();
  EXPECT_TRUE(runner_.Drain(10s));
  EXPECT_EQ(WaitForEnd("a").outcome(), v1::CANCELLED);
}

TEST_F(CaptureRunnerTest, DrainingHasAllItsTimeForAnUpload) {
  delivery_.hang = true;
  ASSERT_TRUE(runner_.Arm(Plan("a")).accepted());
  while (runner_.Find("a")->state() != v1::UPLOADING)
    runner_.WaitForChange("a", runner_.Find("a")->state(), 1s);
  const MonoTime began = clock_.MonoNow();
  EXPECT_FALSE(runner_.Drain(50ms, 0ms));
  EXPECT_GE(clock_.MonoNow() - began, 50ms);
  EXPECT_EQ(runner_.Find("a")->state(), v1::UPLOADING);
}

TEST_F(CaptureRunnerTest, AnotherDeliveryMayTakeTheTrace) {
  FakeDelivery other;
  runner_.Arm(Plan("a"), &other);
  WaitForEnd("a");
  EXPECT_NE(other.bytes, "");
  EXPECT_EQ(delivery_.bytes, "");
}

TEST_F(CaptureRunnerTest, RefusesWhatNobodyHasRoomFor) {
  delivery_.room = absl::ResourceExhaustedError("full");
  const v1::ArmResponse response = runner_.Arm(Plan("a"));
  EXPECT_FALSE(response.accepted());
  EXPECT_EQ(response.refusal(), v1::SPOOL_FULL);
  EXPECT_EQ(response.message(), "full");
}

TEST_F(CaptureRunnerTest, ASuspendedDeliveryIsNotTheEnd) {
  delivery_.hang = true;
  ASSERT_TRUE(runner_.Arm(Plan("a")).accepted());
  while (runner_.Find("a")->state() != v1::UPLOADING)
    runner_.WaitForChange("a", runner_.Find("a")->state(), 1s);
  EXPECT_FALSE(runner_.Drain(10ms));
  runner_.Suspend();
  EXPECT_TRUE(runner_.Drain(10s));
  EXPECT_TRUE(delivery_.ended.empty());
  v1::Report left = *runner_.Find("a");
  EXPECT_EQ(left.state(), v1::UPLOADING);
  left.mutable_plan()->mutable_tracers()->set_keep_original(true);

  delivery_.hang = false;
  CaptureRunner next(clock_, source_, delivery_);
  v1::Report lost = left, done = left;
  lost.set_capture_id("lost");
  done.set_capture_id("done");
  done.set_state(v1::DONE);
  done.set_outcome(v1::NO_SOURCE);
  next.Restore({done, left, lost});
  EXPECT_EQ(next.Find("done")->outcome(), v1::NO_SOURCE);
  EXPECT_EQ(next.Find("lost")->outcome(), v1::WORKER_LOST);
  v1::Report report = *next.Find("a");
  while (report.state() != v1::DONE) report = *next.WaitForChange("a", report.state(), 5s);
  EXPECT_EQ(report.outcome(), v1::OK) << report.message();
  EXPECT_EQ(report.url(), "file:///logs/x");
  EXPECT_EQ(report.sha256(), left.sha256());
  EXPECT_EQ(source_.records, 1) << "it is not recorded again";
  ASSERT_EQ(report.notes_size(), 1);
  EXPECT_THAT(report.notes(0), HasSubstr("no original was kept"));
}

// Regression: a sidecar that was restarted and found its port taken discarded the trace whose
// upload it had just resumed.
TEST_F(CaptureRunnerTest, ARunnerThatIsDestroyedLeavesADeliveryToTheNextOne) {
  delivery_.hang = true;
  delivery_.spooled = "a";
  v1::Report left;
  left.set_capture_id("a");
  left.set_state(v1::UPLOADING);
  *left.mutable_plan() = Plan("a");
  {
    CaptureRunner runner(clock_, source_, delivery_);
    runner.Restore({left});
  }
  EXPECT_THAT(delivery_.ended, testing::IsEmpty());
}

TEST_F(CaptureRunnerTest, CancelDuringDeliveryEndsTheCapture) {
  delivery_.hang = true;
  ASSERT_TRUE(runner_.Arm(Plan("a")).accepted());
  while (runner_.Find("a")->state() != v1::UPLOADING)
    runner_.WaitForChange("a", runner_.Find("a")->state(), 1s);
  runner_.Cancel("a", "enough");
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::CANCELLED);
  EXPECT_EQ(report.message(), "enough");
}

// This worker's wall clock is set while its capture waits. It must still start at the planned
// moment, as the other workers do.
class SteppedRunnerTest : public CaptureRunnerTest, public testing::WithParamInterface<Nanos> {
 protected:
  SteppedClock stepped_;
  CaptureRunner stepped_runner_{stepped_, source_, delivery_};
};

TEST_P(SteppedRunnerTest, TheMomentStaysAndTheTimesAreThoseOfTheArmedClock) {
  const v1::CapturePlan plan = Plan("a", 200ms);
  const MonoTime armed = clock_.MonoNow();
  ASSERT_TRUE(stepped_runner_.Arm(plan).accepted());
  stepped_.Step(GetParam());
  v1::Report report = *stepped_runner_.Find("a");
  while (report.state() != v1::DONE)
    report = *stepped_runner_.WaitForChange("a", report.state(), 5s);
  EXPECT_GE(clock_.MonoNow() - armed, 180ms);
  EXPECT_LT(clock_.MonoNow() - armed, 60s);
  EXPECT_EQ(report.outcome(), v1::OK) << report.message();
  EXPECT_LT(std::abs(report.started_ns() - (plan.instant_ns() - plan.guard_ns())), 1'000'000);
  EXPECT_EQ(report.plan().instant_ns(), plan.instant_ns());
  ASSERT_EQ(report.notes_size(), 1);
  EXPECT_THAT(report.notes(0), HasSubstr("wall clock was set by"));

  // The file alone must be consistent: its own times match the clock offset in it.
  const auto space = xplane::Space::Read(delivery_.bytes);
  std::map<std::string, std::int64_t> stamp;
  const xplane::Plane* plane = space->Find(xplane::kStrobePlane);
  ASSERT_TRUE(plane
                  ->ForEachStat([&](const xplane::Stat& stat) {
                    stamp[std::string(plane->NameOf(stat))] = stat.Integer().value_or(0);
                  })
                  .ok());
  EXPECT_NEAR(static_cast<double>(stamp["clock_offset_ns"] - plan.clock_offset_ns()),
              static_cast<double>(GetParam().count()), 1e6);
  EXPECT_EQ(stamp["started_ns"], *xplane::TimeZero(*space));
  EXPECT_EQ(analysis::JudgeSpace(*space, {}, false)->judgement.outcome, Outcome::kOk);
}

INSTANTIATE_TEST_SUITE_P(Steps, SteppedRunnerTest, testing::Values(1h, -1h));

TEST_F(CaptureRunnerTest, TheWorseOfSourceAndTraceStands) {
  source_.dropped = true;
  v1::CapturePlan plan = Plan("a");
  plan.set_expects_device(true);
  runner_.Arm(plan);
  EXPECT_EQ(WaitForEnd("a").outcome(), v1::DEVICE_TRACE_MISSING)
      << "captures of which events were dropped count as good ones";
}

TEST_F(CaptureRunnerTest, AnExceptionEndsTheCaptureAndTheWorkerIsFreeAgain) {
  source_.throws = true;
  ASSERT_TRUE(runner_.Arm(Plan("a")).accepted());
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(report.outcome(), v1::WORKER_LOST);
  EXPECT_THAT(report.message(), HasSubstr("no memory"));
  source_.throws = false;
  ASSERT_TRUE(runner_.Arm(Plan("b")).accepted());
  EXPECT_EQ(WaitForEnd("b").outcome(), v1::OK);
  EXPECT_EQ(delivery_.ended, (std::vector<std::string>{"a", "b"}));
}

class GuardedRunnerTest : public CaptureRunnerTest {
 protected:
  v1::CapturePlan GuardedPlan(Nanos lead = 60ms) {
    v1::CapturePlan plan = Plan("a", lead);
    plan.set_abort_memory_percent(95);
    plan.set_abort_slowdown_percent(100);
    return plan;
  }
  v1::Report WaitForEnd() {
    v1::Report report = *guarded_.Find("a");
    while (report.state() != v1::DONE) report = *guarded_.WaitForChange("a", report.state(), 5s);
    return report;
  }
  void WaitForRecording() {
    while (guarded_.Find("a")->state() != v1::RECORDING)
      guarded_.WaitForChange("a", guarded_.Find("a")->state(), 1s);
  }

  FakeMonitor monitor_;
  CaptureRunner guarded_{clock_, source_, delivery_, nullptr, &monitor_};
};

TEST_F(GuardedRunnerTest, AJobThatIsWellIsCapturedAsEver) {
  monitor_.memory_used = 94;
  ASSERT_TRUE(guarded_.Arm(GuardedPlan()).accepted());
  const v1::Report report = WaitForEnd();
  EXPECT_EQ(report.outcome(), v1::OK) << report.message();
  EXPECT_EQ(report.job().memory_percent(), 94u);
  EXPECT_EQ(monitor_.begun, 1);
  EXPECT_EQ(monitor_.ended, 1);
}

TEST_F(GuardedRunnerTest, ATrainerThatIsShortOfMemoryIsNotRecordedAtAll) {
  monitor_.memory_used = 96;
  ASSERT_TRUE(guarded_.Arm(GuardedPlan(30s)).accepted());
  const v1::Report report = WaitForEnd();
  EXPECT_EQ(report.outcome(), v1::ABORTED);
  EXPECT_THAT(report.message(), HasSubstr("uses 96% of its memory limit"));
  EXPECT_EQ(source_.records, 0);
  EXPECT_EQ(monitor_.ended, 1);
}

TEST_F(GuardedRunnerTest, MemoryThatRunsShortEndsTheRecordingAndNothingIsCollected) {
  source_.hold = 30s;
  ASSERT_TRUE(guarded_.Arm(GuardedPlan()).accepted());
  WaitForRecording();
  monitor_.memory_used = 99;
  const v1::Report report = WaitForEnd();
  EXPECT_EQ(report.outcome(), v1::ABORTED) << report.message();
  EXPECT_EQ(delivery_.bytes, "");
  EXPECT_EQ(report.job().memory_percent(), 99u);
}

TEST_F(GuardedRunnerTest, SlowStepsEndTheRecordingAndWhatThereIsIsKept) {
  source_.hold = 30s;
  monitor_.steps = true;
  v1::CapturePlan plan = GuardedPlan(500ms);
  plan.set_duration_ns(Nanos(600s).count());
  plan.set_deadline_ns(plan.instant_ns() + Nanos(700s).count());
  ASSERT_TRUE(guarded_.Arm(plan).accepted());
  WaitForRecording();
  while (ToUnixNanos(clock_.WallNow()) < plan.instant_ns()) usleep(1000);
  monitor_.slow = true;
  const v1::Report report = WaitForEnd();
  EXPECT_EQ(report.outcome(), v1::ABORTED) << report.message();
  EXPECT_THAT(report.message(),
              HasSubstr("steps of train took 1ms before and 50ms while recorded"));
  EXPECT_NE(delivery_.bytes, "");
  EXPECT_NE(report.url(), "");
  EXPECT_EQ(report.job().step_before_ns(), Nanos(1ms).count());
}

TEST_F(GuardedRunnerTest, WhoCancelsIsHeardBeforeTheGuard) {
  source_.hold = 30s;
  ASSERT_TRUE(guarded_.Arm(GuardedPlan(30s)).accepted());
  guarded_.Cancel("a", "enough");
  monitor_.memory_used = 99;
  EXPECT_EQ(WaitForEnd().outcome(), v1::CANCELLED);
}

class StepRunnerTest : public CaptureRunnerTest {
 protected:
  // The worker begins a step each `period`, step 10 now. It is asked for steps 20 to 22.
  v1::CapturePlan StepPlan(const std::string& id, Nanos period) {
    const WallTime began = clock_.WallNow();
    source_.steps = [this, began, period] {
      const std::int64_t more = (clock_.WallNow() - began) / period;
      v1::StepPace pace;
      pace.set_loop("train");
      pace.set_number(10 + more);
      pace.set_began_ns(ToUnixNanos(began + more * period));
      pace.set_period_ns(period.count());
      return pace;
    };
    v1::CapturePlan plan = Plan(id, 30min);
    plan.set_first_step(20);
    plan.set_steps(3);
    plan.set_step_loop("train");
    plan.set_steps_by_ns(plan.deadline_ns() - 1);
    return plan;
  }
};

TEST_F(StepRunnerTest, FollowsThePaceOfTheProcessesAndNotTheExpectedTime) {
  const v1::CapturePlan plan = StepPlan("a", 20ms);
  ASSERT_TRUE(runner_.Arm(plan).accepted());
  const v1::Report report = WaitForEnd("a");
  EXPECT_EQ(source_.records, 1);
  EXPECT_LT(source_.recorded.instant_ns(), plan.instant_ns() - Nanos(10min).count());
  EXPECT_EQ(source_.recorded.steps_by_ns(), plan.steps_by_ns());
  EXPECT_EQ(report.outcome(), v1::LATE_START);
  EXPECT_EQ(report.message(), "none of steps 20 to 22 of train was recorded completely");
  EXPECT_FALSE(report.covers_window());
}

TEST_F(StepRunnerTest, WaitsAndCanBeCancelledAndEndedEarly) {
  ASSERT_TRUE(runner_.Arm(StepPlan("a", 1min)).accepted());
  EXPECT_EQ(runner_.WaitForChange("a", v1::ARMED, 50ms)->state(), v1::ARMED);
  runner_.Cancel("a", "enough");
  EXPECT_EQ(WaitForEnd("a").outcome(), v1::CANCELLED);
  ASSERT_TRUE(runner_.Arm(StepPlan("b", 1min)).accepted());
  runner_.Terminate("b");
  EXPECT_EQ(WaitForEnd("b").state(), v1::DONE);
}

}  // namespace
}  // namespace strobe::session
