#include "capture/attempt_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kStart{100s};

TEST(ComputeSkew, CorrectsEachClock) {
  const std::vector<CorrectedStart> starts = {
      {kStart, 0ms, 1us}, {kStart + 11560ms + 3us, 11560ms, 2us}, {kStart - 1us, 0ms, 5us}};
  const auto skew = ComputeSkew(starts);
  EXPECT_EQ(skew->achieved, 4us);
  EXPECT_EQ(skew->error, 7us) << "the two largest errors bound every pair";
}

TEST(ComputeSkew, OneWorkerHasNone) {
  const std::vector<CorrectedStart> one = {{kStart, 0ms, std::nullopt}};
  EXPECT_EQ(ComputeSkew(one)->achieved, 0us);
  EXPECT_EQ(ComputeSkew(one)->error, 0us);
}

TEST(ComputeSkew, SaysWhenAClockWasNeverMeasured) {
  const std::vector<CorrectedStart> two = {{kStart, 0ms, 1us}, {kStart, 0ms, std::nullopt}};
  EXPECT_EQ(ComputeSkew(two)->error, std::nullopt);
}

TEST(ComputeSkew, NothingForNobody) { EXPECT_FALSE(ComputeSkew({}).has_value()); }

using testing::HasSubstr;

WorkerResult Ended(const std::string& name, Outcome outcome, Nanos start = 0ns) {
  WorkerResult worker;
  worker.target.name = worker.target.file = name;
  worker.armed = true;
  worker.outcome = outcome;
  worker.error = 10us;
  if (outcome == Outcome::kOk) {
    worker.report.set_url("file:///x");
    worker.report.set_bytes(7);
    worker.report.set_covers_window(true);
    worker.report.set_started_ns((1000s + start).count() * 1);
  }
  return worker;
}

AttemptResult Concluded(const Spec& spec, std::vector<WorkerResult> workers) {
  AttemptResult result;
  result.workers = std::move(workers);
  Conclude(spec, result);
  return result;
}

TEST(Conclude, OneGoodHostIsNotSuccess) {
  const AttemptResult result =
      Concluded({}, {Ended("a", Outcome::kOk), Ended("b", Outcome::kNoHostEvents)});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.reason, "NoHostEvents");
  EXPECT_EQ(result.ok, 1u);
  EXPECT_EQ(result.empty, 1u);
  EXPECT_EQ(result.bytes, 7u);
}

TEST(Conclude, TheWorstWorkerGivesTheReason) {
  const AttemptResult result = Concluded(
      {},
      {Ended("a", Outcome::kBusy), Ended("b", Outcome::kUploadDenied), Ended("c", Outcome::kOk)});
  EXPECT_EQ(result.reason, "UploadDenied");
}

TEST(Conclude, ProcessesThatTellALargerJobAreQuoted) {
  const auto message = [](std::optional<std::size_t> expected, std::uint32_t size) {
    AttemptResult result;
    result.expected_workers = expected;
    for (const char* name : {"a", "b"}) {
      result.workers.push_back(Ended(name, Outcome::kOk));
      result.workers.back().report.mutable_rank()->set_world_size(size);
    }
    Conclude({}, result);
    EXPECT_TRUE(result.succeeded) << "they may be in pods of another object";
    return result.message;
  };
  EXPECT_THAT(message(2, 3), HasSubstr("report a job of 3"));
  EXPECT_EQ(message(2, 2), "2 of 2 workers Ok");
  EXPECT_EQ(message(4, 3), "2 of 2 workers Ok") << "a sample";
  EXPECT_EQ(message(std::nullopt, 3), "2 of 2 workers Ok");
}

// Regression: nobody tried again, because late traces are kept.
TEST(Conclude, ALateTraceWithoutACompleteStepIsNotWhatWasAskedFor) {
  const auto succeeded = [](bool asked, bool found) {
    WorkerResult worker = Ended("a", Outcome::kLateStart);
    worker.report.set_url("file:///x");
    if (asked) worker.report.mutable_plan()->set_steps(4);
    if (found) worker.report.mutable_steps()->set_last(1);
    return Concluded({}, {worker}).succeeded;
  };
  EXPECT_TRUE(succeeded(false, false));
  EXPECT_TRUE(succeeded(true, true));
  EXPECT_FALSE(succeeded(true, false));
}

TEST(Conclude, SkewBeyondMaxSkewIsNotSynchronized) {
  Spec spec;
  spec.max_skew = 100us;
  EXPECT_TRUE(
      Concluded(spec, {Ended("a", Outcome::kOk), Ended("b", Outcome::kOk, 80us)}).synchronized);
  const AttemptResult beyond =
      Concluded(spec, {Ended("a", Outcome::kOk), Ended("b", Outcome::kOk, 81us)});
  EXPECT_FALSE(beyond.synchronized) << "the error counts too";
  EXPECT_EQ(beyond.sync_reason, "SkewTooLarge");
  EXPECT_TRUE(beyond.succeeded) << "kept, as is the default";
  spec.on_late_start = OnLateStart::kDiscard;
  EXPECT_EQ(Concluded(spec, {Ended("a", Outcome::kOk), Ended("b", Outcome::kOk, 81us)}).reason,
            "NotSynchronized");
}

TEST(Conclude, TellsHowFarAllTracesReachBack) {
  Spec spec;
  spec.look_back = 30s;
  const auto back = [](const std::string& name, Nanos reached) {
    WorkerResult worker = Ended(name, Outcome::kOk);
    worker.report.set_reached_back_ns(reached.count());
    return worker;
  };
  const auto words = [&](std::vector<WorkerResult> workers) {
    return Concluded(spec, std::move(workers)).sync_message;
  };
  EXPECT_THAT(words({back("a", 30s), back("b", 30s)}), HasSubstr("all traces reach back 30s"));
  EXPECT_THAT(words({back("a", 30s), back("b", 4s)}), HasSubstr("; b reaches back 4s of 30s"));
  EXPECT_THAT(words({back("a", 0s), back("b", 4s)}), HasSubstr("strobe.dev/flight-recorder"));
  EXPECT_THAT(words({Ended("a", Outcome::kOk)}), HasSubstr("a does not reach back: its sidecar"));
  EXPECT_THAT(words({Ended("a", Outcome::kBusy)}), testing::Not(HasSubstr("reach")));
  EXPECT_EQ(Concluded(spec, {back("a", 30s), back("b", 4s)}).reached_back, 4s);
  spec.look_back = 0s;
  EXPECT_EQ(Concluded(spec, {back("a", 30s)}).reached_back, std::nullopt);
}

TEST(Conclude, MoreWorkersWantedThanThereAreFails) {
  Spec spec;
  spec.min_workers = 3;
  EXPECT_FALSE(Concluded(spec, {Ended("a", Outcome::kOk), Ended("b", Outcome::kOk)}).succeeded);
}

TEST(Conclude, CalledOffForWantOfWorkersSaysSo) {
  EXPECT_EQ(
      Concluded({}, {Ended("a", Outcome::kCancelled), Ended("b", Outcome::kCancelled)}).reason,
      "TooFewWorkers");
  EXPECT_EQ(Concluded({}, {Ended("a", Outcome::kCancelled), Ended("b", Outcome::kNoSource)}).reason,
            "NoSource");
}

TEST(ComposeManifest, HoldsEveryWorkerInRankOrder) {
  AttemptResult result =
      Concluded({}, {Ended("a", Outcome::kOk), Ended("b", Outcome::kWorkerLost)});
  result.workers[0].target.rank = 1;
  result.workers[1].target.rank = 0;
  result.workers[0].offset = 11560ms;
  const auto json = nlohmann::json::parse(*ManifestJson(ComposeManifest({}, result)));
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["result"], "Failed");
  EXPECT_EQ(json["workers"][0]["name"], "b");
  EXPECT_EQ(json["workers"][0]["outcome"], "WorkerLost");
  EXPECT_EQ(json["workers"][1]["clockOffsetNs"], "11560000000");
  EXPECT_EQ(json["workers"][1]["clockErrorNs"], "10000");
}

TEST(ComposeManifest, TellsTheJobAndWhoAsked) {
  Spec spec;
  spec.job = "Job/llm";
  spec.requester = std::string(600, 'j');
  const AttemptResult result = Concluded(spec, {Ended("a", Outcome::kOk)});
  const auto json = nlohmann::json::parse(*ManifestJson(ComposeManifest(spec, result)));
  EXPECT_EQ(json["job"], "Job/llm");
  EXPECT_EQ(json["requester"], std::string(512, 'j'));
}

TEST(ManifestJson, LeavesOutDetailsUntilItFits) {
  v1::Manifest manifest;
  for (int i = 0; i < 500; ++i) {  // 15 MB.
    v1::ManifestWorker& worker = *manifest.add_workers();
    worker.set_name("worker-" + std::to_string(i));
    worker.set_outcome(i == 0 ? "WorkerLost" : "Ok");
    worker.set_message(std::string(1000, 'm'));
    for (int k = 0; k < 64; ++k) worker.add_processes()->set_message(std::string(400, 'p'));
    for (int k = 0; k < 8; ++k) worker.add_notes(std::string(500, 'n'));
  }
  const absl::StatusOr<std::string> text = ManifestJson(manifest);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_LE(text->size(), kMaxManifestBytes);
  const auto json = nlohmann::json::parse(*text);
  ASSERT_EQ(json["workers"].size(), 500u);
  EXPECT_EQ(json["workers"][1]["processesLeftOut"], 64) << "what is left out is told";
  EXPECT_EQ(json["workers"][0]["processes"].size(), 64u) << "of whom something is wrong, last";
}

TEST(ManifestJson, HasRoomForSixteenThousandWorkers) {
#ifdef STROBE_SANITIZED
  constexpr std::size_t kWorkers = 500;  // They reach all code, and more take minutes.
#else
  constexpr std::size_t kWorkers = 16'000;
#endif
  AttemptResult result;
  for (std::size_t i = 0; i < kWorkers; ++i) {
    WorkerResult worker = Ended("training-job-" + std::to_string(i), Outcome::kOk,
                                Nanos{static_cast<std::int64_t>(i)});
    worker.target.pod = worker.target.name;
    worker.target.container = "trainer";
    worker.report.set_sha256(std::string(64, 'f'));
    worker.report.set_events(1'000'000);
    for (int k = 0; k < 4; ++k) worker.report.add_planes("/device:GPU:" + std::to_string(k));
    v1::ProcessReport& row = *worker.report.add_processes();
    row.set_name("python 12345");
    row.set_outcome(v1::OK);
    result.workers.push_back(std::move(worker));
  }
  const absl::StatusOr<std::string> text = ManifestJson(ComposeManifest({}, result));
  ASSERT_TRUE(text.ok()) << text.status();
  const auto json = nlohmann::json::parse(*text);
  ASSERT_EQ(json["workers"].size(), kWorkers);
  EXPECT_EQ(json["workers"][kWorkers - 1]["sha256"], std::string(64, 'f'));
}

TEST(ManifestJson, IsTextWhateverIsInIt) {
  v1::Manifest manifest;
  manifest.set_capture_id("uid-1");
  for (const char* odd : {"\xff", "a\xe2\x82", "\xed\xa0\x80"}) {
    manifest.set_message(odd);
    const absl::StatusOr<std::string> text = ManifestJson(manifest);
    if (text.ok()) {
      EXPECT_EQ(nlohmann::json::parse(*text)["captureId"], "uid-1");
    }
  }
}

TEST(ComposeManifest, TakesTextOfAnyKind) {
  Spec spec;
  spec.request = "\xff@host";
  AttemptResult result = Concluded(spec, {Ended("a", Outcome::kWorkerLost)});
  result.message = result.workers[0].message = "\xe2\x82";
  EXPECT_TRUE(ManifestJson(ComposeManifest(spec, result)).ok());
}

StepsOfWorker Has(std::int64_t first, std::int64_t last, Nanos began, Nanos offset = 0ms,
                  const std::string& loop = "train") {
  StepsOfWorker worker{.offset = offset, .error = 1ms};
  worker.steps.set_loop(loop);
  worker.steps.set_first(first);
  worker.steps.set_last(last);
  worker.steps.set_began_ns(ToUnixNanos(WallTime{1000s} + began + offset));
  return worker;
}

TEST(FindCommonSteps, AreThoseOfAll) {
  const auto common =
      FindCommonSteps(std::vector<StepsOfWorker>{Has(3, 9, 0ms), Has(5, 12, 0ms), Has(4, 8, 0ms)});
  ASSERT_TRUE(common);
  EXPECT_EQ(Describe(*common), "steps 5 to 8 of train");
  EXPECT_FALSE(common->spread) << "not all of them recorded that step 5 began";
}

TEST(FindCommonSteps, TheSpreadIsThatOfTheCorrectedBegins) {
  const auto common =
      FindCommonSteps(std::vector<StepsOfWorker>{Has(5, 6, 0ms), Has(5, 5, 7ms, 10s)});
  EXPECT_EQ(Describe(*common), "step 5 of train");
  EXPECT_EQ(common->spread->achieved, 7ms);
  EXPECT_EQ(common->spread->error, 2ms);
}

TEST(FindCommonSteps, ThereMayBeNone) {
  EXPECT_FALSE(FindCommonSteps({}));
  EXPECT_FALSE(FindCommonSteps(std::vector<StepsOfWorker>{Has(3, 4, 0ms), Has(5, 6, 0ms)}));
  EXPECT_FALSE(
      FindCommonSteps(std::vector<StepsOfWorker>{Has(3, 9, 0ms), Has(3, 9, 0ms, 0ms, "eval")}));
}

AttemptResult Failed(int attempt, std::vector<Outcome> outcomes) {
  AttemptResult result;
  result.attempt = attempt;
  for (const Outcome outcome : outcomes) {
    WorkerResult& worker = result.workers.emplace_back();
    worker.outcome = outcome;
    if (outcome == Outcome::kOk) worker.report.set_url("x");
  }
  return result;
}

TEST(RetryAfter, TriesAgainWhatARetryCanCureWithGrowingDelay) {
  Spec spec;
  EXPECT_EQ(RetryAfter(spec, Failed(1, {Outcome::kOk, Outcome::kBusy})), 1s);
  EXPECT_EQ(RetryAfter(spec, Failed(2, {Outcome::kOk, Outcome::kBusy})), 2s);
  EXPECT_EQ(RetryAfter(spec, Failed(3, {Outcome::kOk, Outcome::kBusy})), std::nullopt)
      << "attempts is 3";
}

TEST(RetryAfter, DoesNotRepeatWhatCannotGetBetter) {
  EXPECT_EQ(RetryAfter({}, Failed(1, {Outcome::kOk, Outcome::kUploadDenied})), std::nullopt);
}

// Regression: a job was recorded three times for a bucket that does not exist.
TEST(RetryAfter, RecordsOnceForALogdirThatAcceptsNoTrace) {
  AttemptResult result = Failed(1, {Outcome::kOk, Outcome::kUploadFailed});
  EXPECT_EQ(RetryAfter({}, result), std::nullopt) << "its sidecar refused the logdir";
  result.workers[1].armed = true;
  EXPECT_EQ(RetryAfter({}, result), 1s) << "the store may answer the next time";
  result.workers[1].report.set_logdir_unusable(true);
  EXPECT_EQ(RetryAfter({}, result), std::nullopt);
}

TEST(RetryAfter, LooksOnlyForEnoughWorkers) {
  Spec spec;
  spec.min_workers = 1;
  EXPECT_TRUE(RetryAfter(spec, Failed(1, {Outcome::kBusy, Outcome::kSidecarMissing})).has_value());
}

TEST(RetryAfter, WorkersThatWereCalledOffAreFine) {
  EXPECT_TRUE(RetryAfter({}, Failed(1, {Outcome::kCancelled, Outcome::kBusy})).has_value());
}

TEST(RetryAfter, NeverAfterACancellation) {
  AttemptResult result = Failed(1, {Outcome::kCancelled});
  result.cancelled = true;
  EXPECT_EQ(RetryAfter({}, result), std::nullopt);
}

}  // namespace
}  // namespace strobe::capture
