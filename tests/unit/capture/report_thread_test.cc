#include "capture/report_thread.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <nlohmann/json.hpp>

#include "collector/trace/digest/encode.h"
#include "common/base/strings.h"
#include "tests/fakes/synthetic_job.h"

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Answers with one digest, at once or from a thread of its own.
class DigestTeller final : public Worker {
 public:
  using Answer = absl::StatusOr<v1::ReadDigestResponse>;

  void Check(const std::string&, Nanos, Callback<Preflight>) override {}
  void MeasureClock(Nanos, Callback<ClockEstimate>) override {}
  void Arm(const v1::CapturePlan&, Nanos, Callback<v1::ArmResponse>) override {}
  std::shared_ptr<void> Watch(const std::string&, std::function<void(v1::Report)>,
                              std::function<void(absl::Status)>) override {
    return nullptr;
  }
  void Cancel(const v1::CancelRequest&, Nanos, Callback<v1::CancelResponse>) override {}
  void ReadEvidence(const v1::ReadEvidenceRequest&, Nanos,
                    Callback<v1::ReadEvidenceResponse>) override {}
  void Publish(const v1::PublishRequest&, Nanos, Callback<v1::PublishResponse>) override {}
  void Reclaim(const v1::ReclaimRequest&, Nanos, Callback<v1::ReclaimResponse>) override {}
  void ReadDigest(const v1::ReadDigestRequest& request, Nanos timeout,
                  Callback<v1::ReadDigestResponse> done) override {
    asked = request;
    patience = timeout;
    if (!hangs) return done(answer);
    kept = std::move(done);
    held.set_value();
  }

  Answer answer = absl::UnimplementedError("unknown method");
  bool hangs = false;
  std::promise<void> held;
  Callback<v1::ReadDigestResponse> kept;
  v1::ReadDigestRequest asked;
  Nanos patience{};
};

class ReportThreadTest : public testing::Test {
 protected:
  std::shared_ptr<DigestTeller> Add(const std::string& bytes) {
    auto teller = std::make_shared<DigestTeller>();
    teller->answer.emplace().set_digest(bytes);
    ReportedWorker& worker = order_.workers.emplace_back();
    worker.name = StrCat("pod-", order_.workers.size() - 1);
    worker.trace = StrCat("trace-", order_.workers.size() - 1);
    worker.sidecar = teller;
    worker.rank = static_cast<int>(order_.workers.size()) - 1;
    worker.error = 20us;
    return teller;
  }
  void AddJob(std::size_t workers) {
    const SimulatedJob job = Simulate(
        {.workers = workers, .slowed = {{.worker = 2, .cause = report::Cause::kInput, .ms = 20}}});
    for (const digest::Digest& digest : job.digests) {
      Add(digest::EncodeDigest(digest));
      order_.workers.back().error = Nanos{digest.clock_error_ns.value()};
    }
  }
  JobReport Make() {
    std::promise<JobReport> made;
    reporter_.Make(order_, [&](JobReport report) { made.set_value(std::move(report)); });
    return made.get_future().get();
  }

  SystemClock clock_;
  ReportOrder order_{.capture_id = "uid-1", .run = "run", .patience = 20s};
  ReportThread reporter_{clock_};
};

TEST_F(ReportThreadTest, MergesTheDigestsOfAllWorkers) {
  AddJob(30);  // More than are asked at once.
  const JobReport report = Make();
  EXPECT_THAT(report.headline, StartsWith("rank 2 holds up 29 others by "));
  EXPECT_THAT(report.headline, EndsWith(": input"));
  EXPECT_GT(*report.straggler_seconds, 0.01);
  const auto json = nlohmann::json::parse(report.json);
  ASSERT_EQ(json["stragglers"]["stragglers"].size(), 1u);
  EXPECT_EQ(json["stragglers"]["stragglers"][0]["worker"], "pod-2")
      << "by the name that the operator knows, not by the one in the digest";
  const auto teller = std::static_pointer_cast<DigestTeller>(order_.workers[5].sidecar);
  EXPECT_EQ(teller->asked.worker(), "trace-5");
  EXPECT_EQ(teller->asked.capture_id(), "uid-1");
}

TEST_F(ReportThreadTest, WorkersWithoutADigestAreMissing) {
  AddJob(8);
  std::static_pointer_cast<DigestTeller>(order_.workers[5].sidecar)->answer =
      absl::UnimplementedError("unknown method");
  Add("garbage");
  Add(std::string(digest::kMaxDigestBytes + 1, '\n'));
  Add("")->answer = absl::FailedPreconditionError("the trace cannot be summarized");
  order_.workers.push_back({.name = "gone", .missing = "it has no trace: WorkerLost"});
  const JobReport report = Make();
  EXPECT_THAT(report.headline, StartsWith("rank 2 holds up 6 others"));
  EXPECT_THAT(report.headline, EndsWith("; 5 of 12 workers are missing"));
  std::map<std::string, std::string> why;
  const auto json = nlohmann::json::parse(report.json);
  for (const auto& worker : json["missing"]) why[worker["worker"]] = worker["why"];
  EXPECT_EQ(why["pod-5"], "its sidecar is too old to make reports");
  EXPECT_THAT(why["pod-8"], HasSubstr("digest"));
  EXPECT_THAT(why["pod-9"], HasSubstr("digest"));
  EXPECT_EQ(why["pod-10"], "the trace cannot be summarized");
  EXPECT_EQ(why["gone"], "it has no trace: WorkerLost");
}

TEST_F(ReportThreadTest, WhoHasNoTimeLeftIsNotAsked) {
  AddJob(8);
  order_.patience = 0s;
  const JobReport report = Make();
  EXPECT_THAT(report.headline,
              StartsWith("not decidable: no trace is summed up: there was no time"));
  EXPECT_EQ(std::static_pointer_cast<DigestTeller>(order_.workers[0].sidecar)->patience, 0s);
}

TEST_F(ReportThreadTest, ReportsAreMadeOneAfterTheOther) {
  AddJob(8);
  std::atomic<int> made{0};
  std::promise<void> all;
  for (int i = 0; i < 3; ++i) {
    reporter_.Make(order_, [&](JobReport report) {
      EXPECT_THAT(report.headline, StartsWith("rank 2"));
      if (++made == 3) all.set_value();
    });
  }
  all.get_future().wait();
}

// Regression: a capture with workers that are gone held up the ends of all other captures.
TEST_F(ReportThreadTest, WorkersThatHangDelayOtherReportsByTwoSecondsAtMost) {
  AddJob(8);
  ReportOrder hanging = order_;
  auto teller = std::make_shared<DigestTeller>();
  teller->hangs = true;
  hanging.workers[5].sidecar = teller;
  std::promise<JobReport> first, second;
  const auto began = std::chrono::steady_clock::now();
  reporter_.Make(hanging, [&](JobReport report) { first.set_value(std::move(report)); });
  reporter_.Make(order_, [&](JobReport report) { second.set_value(std::move(report)); });
  const JobReport late = first.get_future().get();
  EXPECT_THAT(late.headline, EndsWith("; 1 of 8 workers are missing"));
  EXPECT_THAT(late.json, HasSubstr("had not answered when other reports had to be made"));
  EXPECT_THAT(second.get_future().get().headline, StartsWith("rank 2 holds up 7 others"));
  EXPECT_GE(std::chrono::steady_clock::now() - began, ReportThread::kShare);
  teller->kept(absl::DeadlineExceededError("late"));  // Nobody waits for it any more.
}

TEST(ReportThread, EndsWhileAWorkerHangsAndTakesItsLateAnswer) {
  SystemClock clock;
  auto teller = std::make_shared<DigestTeller>();
  teller->hangs = true;
  {
    ReportThread reporter(clock);
    ReportOrder order{.capture_id = "uid-1", .patience = 20s};
    order.workers.push_back({.name = "pod", .sidecar = teller});
    reporter.Make(order, [](JobReport) { ADD_FAILURE() << "the report was not finished"; });
    teller->held.get_future().wait();
  }
  teller->kept(absl::UnavailableError("too late"));
}

}  // namespace
}  // namespace strobe::capture
