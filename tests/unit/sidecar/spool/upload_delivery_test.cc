#include "sidecar/spool/upload_delivery.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "collector/store/run_claim.h"
#include "common/base/hash.h"
#include "tests/fakes/memory_store.h"
#include "tests/fakes/stepped_clock.h"

namespace strobe::spool {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

class UploadDeliveryTest : public testing::Test {
 protected:
  UploadDeliveryTest() : directory_(mkdtemp(name_.data())) {
    spool_ = *Spool::Open(directory_, 64 << 20);
  }
  ~UploadDeliveryTest() override { fs::remove_all(directory_); }

  static session::TracePieces Pieces(const std::vector<std::string>& texts) {
    session::TracePieces pieces;
    for (const std::string& text : texts) pieces.push_back(std::make_shared<std::string>(text));
    return pieces;
  }

  v1::Report Report(const std::string& id, const std::vector<std::string>& pieces) {
    v1::Report report;
    report.set_capture_id(id);
    report.set_state(v1::UPLOADING);
    report.mutable_plan()->set_capture_id(id);
    report.mutable_plan()->set_logdir("s3://b/logs");
    report.mutable_plan()->set_run("run-" + id);
    report.mutable_plan()->set_worker("w0");
    report.mutable_plan()->set_deadline_ns(ToUnixNanos(clock_.WallNow() + 30s));
    Sha256 hash;
    for (const std::string& piece : pieces) hash.Update(piece);
    report.set_sha256(hash.Hex());
    return report;
  }
  // Delivers a trace until the store is to commit it; the capture is cancelled then.
  void CancelAtCommit(UploadDelivery& delivery, const std::vector<std::string>& pieces,
                      v1::Report& report) {
    bucket_.before = [](const std::string& call) {
      return call == "commit" ? absl::CancelledError("cancelled") : absl::OkStatus();
    };
    EXPECT_FALSE(delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().ok());
    report.set_state(v1::DONE);
    report.set_outcome(v1::CANCELLED);
  }
  // Delivers "trace", which the store is to refuse, so that it is kept.
  void KeepFailed(UploadDelivery& delivery, const std::string& id) {
    const std::vector<std::string> pieces = {"trace"};
    v1::Report report = Report(id, pieces);
    EXPECT_FALSE(delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().ok());
    report.set_state(v1::DONE);
    report.set_outcome(v1::UPLOAD_FAILED);
    delivery.OnEnd(report);
  }
  static std::string Key(const std::string& id) { return storage::TraceKey("run-" + id, "w0"); }

  std::string name_ = "/tmp/strobe-delivery-XXXXXX";
  const std::string directory_;
  SystemClock clock_;
  MemoryBucket bucket_;
  MemoryStores stores_{bucket_};
  std::unique_ptr<Spool> spool_;
  Cancellation cancel_;
};

TEST_F(UploadDeliveryTest, FirstIntoTheSpoolThenIntoTheStoreThenOutOfTheSpool) {
  UploadDelivery delivery(clock_, stores_, spool_.get());
  bool spooled = false;
  bucket_.before = [&](const std::string& call) {
    if (call == "put") spooled = spool_->HasTrace("a");
    return absl::OkStatus();
  };
  const std::vector<std::string> pieces = {"trace", "plane"};
  const auto url = delivery.Deliver(Report("a", pieces), {Pieces(pieces)}, cancel_, [] {}).front();
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(*url, "s3://b/logs/plugins/profile/run-a/w0.xplane.pb");
  EXPECT_TRUE(spooled);
  EXPECT_TRUE(spool_->HasTrace("a")) << "until the report is safe";
  v1::Report report = Report("a", pieces);
  report.set_state(v1::DONE);
  report.set_url(*url);
  delivery.OnEnd(report);
  EXPECT_FALSE(spool_->HasTrace("a"));
  EXPECT_EQ(bucket_.Bytes(Key("a")), "traceplane");
}

TEST_F(UploadDeliveryTest, EachWorkerHasAFileAndOneFailureIsItsOwn) {
  const std::vector<std::vector<std::string>> traces = {{"rank 0"}, {}, {"rank 2"}};
  v1::Report report = Report("a", {});
  for (std::uint32_t i = 0; i < traces.size(); ++i) {
    v1::Report& worker = *report.add_workers();
    worker = Report("a", traces[i]);
    worker.mutable_rank()->set_local_rank(i);
    worker.mutable_plan()->set_worker("w0." + std::to_string(i));
  }
  UploadDelivery delivery(clock_, stores_, spool_.get());
  std::atomic<int> puts{0};
  bucket_.before = [&](const std::string& call) {
    const bool traces_there = spool_->HasTrace("a@0") && spool_->HasTrace("a@2");
    if (call == "put") puts += traces_there ? 1 : 100;
    return absl::OkStatus();
  };
  const auto urls = delivery.Deliver(
      report, {Pieces(traces[0]), Pieces(traces[1]), Pieces(traces[2])}, cancel_, [] {});
  ASSERT_EQ(urls.size(), 3u);
  EXPECT_LT(puts, 100) << "an upload began before all traces were safe";
  EXPECT_EQ(*urls[0], "s3://b/logs/plugins/profile/run-a/w0.0.xplane.pb");
  EXPECT_EQ(*urls[1], "");
  EXPECT_EQ(*urls[2], "s3://b/logs/plugins/profile/run-a/w0.2.xplane.pb");
  EXPECT_EQ(bucket_.Bytes(storage::TraceKey("run-a", "w0.2")), "rank 2");
  report.set_state(v1::DONE);
  report.mutable_workers(0)->set_url(*urls[0]);
  delivery.OnEnd(report);
  EXPECT_FALSE(spool_->HasTrace("a@0"));
  EXPECT_TRUE(spool_->HasTrace("a@2")) << "its report has no URL, so that it is kept";
}

TEST_F(UploadDeliveryTest, ATraceThatDoesNotFitGoesStraightToTheStore) {
  spool_.reset();
  spool_ = *Spool::Open(directory_, 3);
  UploadDelivery delivery(clock_, stores_, spool_.get());
  const std::vector<std::string> pieces = {"trace"};
  ASSERT_TRUE(delivery.Deliver(Report("a", pieces), {Pieces(pieces)}, cancel_, [] {}).front().ok());
  EXPECT_EQ(bucket_.Bytes(Key("a")), "trace");
  v1::CapturePlan plan;
  const absl::Status room = delivery.CheckSpace(plan);
  EXPECT_TRUE(absl::IsResourceExhausted(room));
  EXPECT_THAT(std::string(room.message()), HasSubstr("3 bytes free"));
}

TEST_F(UploadDeliveryTest, WhatTheStoreRefusedStaysAndIsResumedByTheNextProcess) {
  const std::vector<std::string> pieces = {std::string(20 << 20, 'x')};
  v1::Report report = Report("a", pieces);
  {
    UploadDelivery delivery(clock_, stores_, spool_.get());
    bucket_.before = [&](const std::string& call) {
      return call == "commit" ? absl::PermissionDeniedError("not yet") : absl::OkStatus();
    };
    EXPECT_TRUE(absl::IsPermissionDenied(
        delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().status()));
    EXPECT_TRUE(delivery.CanResume(report));
  }
  bucket_.before = nullptr;
  spool_.reset();
  spool_ = *Spool::Open(directory_, 64 << 20);
  UploadDelivery delivery(clock_, stores_, spool_.get());
  ASSERT_EQ(spool_->recovered().size(), 1u);
  report = spool_->recovered()[0];
  ASSERT_TRUE(delivery.CanResume(report));
  const std::size_t parts = bucket_.Count("part");
  ASSERT_TRUE(delivery.Resume(report, cancel_).front().ok());
  EXPECT_EQ(bucket_.Count("part"), parts) << "all parts were there already";
  EXPECT_EQ(bucket_.Bytes(Key("a")), pieces[0]);
}

TEST_F(UploadDeliveryTest, AJournalThatCannotBeWrittenEndsNoUpload) {
  UploadDelivery delivery(clock_, stores_, spool_.get());
  // A directory is where the journal is written first.
  fs::create_directories(directory_ + "/a.upload.json.partial");
  const std::vector<std::string> pieces = {std::string(20 << 20, 'x')};
  const v1::Report report = Report("a", pieces);
  bucket_.before = [](const std::string& call) {
    return call == "commit" ? absl::PermissionDeniedError("not yet") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsPermissionDenied(
      delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().status()));
  EXPECT_EQ(bucket_.OpenUploads(), 0u) << "nobody could resume it";
  bucket_.before = nullptr;
  const auto url = delivery.Resume(report, cancel_).front();
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(bucket_.Bytes(Key("a")), pieces[0]);
}

TEST_F(UploadDeliveryTest, AnUploadInTheJournalIsKeptWhenTheDiskFillsLater) {
  UploadDelivery delivery(clock_, stores_, spool_.get());
  const std::vector<std::string> pieces = {std::string(20 << 20, 'x')};
  const v1::Report report = Report("a", pieces);
  bucket_.before = [&](const std::string& call) {
    if (call == "part") fs::create_directories(directory_ + "/a.upload.json.partial");
    return call == "commit" ? absl::PermissionDeniedError("not yet") : absl::OkStatus();
  };
  EXPECT_FALSE(delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().ok());
  EXPECT_EQ(bucket_.OpenUploads(), 1u);
  bucket_.before = nullptr;
  ASSERT_TRUE(delivery.Resume(report, cancel_).front().ok());
  EXPECT_EQ(bucket_.Count("begin"), 1u);
  EXPECT_EQ(bucket_.Bytes(Key("a")), pieces[0]);
}

TEST_F(UploadDeliveryTest, AKillJustAfterTheUploadCostsNothing) {
  const std::vector<std::string> pieces = {std::string(20 << 20, 'x')};
  const v1::Report report = Report("a", pieces);
  {
    UploadDelivery delivery(clock_, stores_, spool_.get());
    ASSERT_TRUE(delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().ok());
  }
  spool_.reset();
  spool_ = *Spool::Open(directory_, 64 << 20);
  UploadDelivery delivery(clock_, stores_, spool_.get());
  ASSERT_TRUE(delivery.CanResume(spool_->recovered()[0]));
  EXPECT_TRUE(delivery.Resume(report, cancel_).front().ok()) << "the store has it already";
  EXPECT_EQ(bucket_.Count("commit"), 1u);
}

// The store accepted the object but its answer was lost, and the capture ended as UploadFailed. A
// later attempt must recognize the object as its own; otherwise it would discard the trace.
class KeptTrace : public UploadDeliveryTest, public testing::WithParamInterface<bool> {};

TEST_P(KeptTrace, KnowsItsOwnObject) {
  bucket_.keeps_sha256 = GetParam();
  std::atomic<int> arrived{0}, dropped{0};
  UploadDelivery delivery(clock_, stores_, spool_.get(), {.keep = -1h, .first_wait = 1ms},
                          {.late = [&] { ++arrived; }, .dropped = [&] { ++dropped; }});
  const std::vector<std::string> pieces = {"trace", "plane"};
  v1::Report report = Report("a", pieces);
  int puts = 0;  // The first one claims the run.
  bucket_.after = [&](const std::string& call) {
    const bool trace = call == "put" && ++puts > 1;
    return trace ? absl::PermissionDeniedError("the answer was lost") : absl::OkStatus();
  };
  EXPECT_FALSE(delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().ok());
  bucket_.after = nullptr;
  ASSERT_EQ(bucket_.Bytes(Key("a")), "traceplane");
  report.set_state(v1::DONE);
  report.set_outcome(v1::UPLOAD_FAILED);
  report.clear_sha256();  // Older sidecars cleared the checksum.
  delivery.OnEnd(report);
  while (spool_->HasTrace("a")) std::this_thread::sleep_for(1ms);
  while (arrived + dropped == 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(arrived, 1);
  EXPECT_EQ(dropped, 0);
}

INSTANTIATE_TEST_SUITE_P(Stores, KeptTrace, testing::Bool());

// Regression: a wall clock that was set forward made a kept trace too old.
TEST_F(UploadDeliveryTest, AKeptTraceDoesNotDependOnTheWallClock) {
  SteppedClock clock;
  std::atomic<bool> away{true};
  std::atomic<int> failed{0}, arrived{0}, dropped{0};
  bucket_.before = [&](const std::string&) {
    if (!away) return absl::OkStatus();
    ++failed;
    return absl::PermissionDeniedError("not now");
  };
  UploadDelivery delivery(clock, stores_, spool_.get(), {.keep = 1h, .first_wait = 1ms},
                          {.late = [&] { ++arrived; }, .dropped = [&] { ++dropped; }});
  const std::vector<std::string> pieces = {"trace"};
  v1::Report report = Report("a", pieces);
  EXPECT_FALSE(delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().ok());
  clock.Step(24h);
  report.set_state(v1::DONE);
  report.set_outcome(v1::UPLOAD_FAILED);
  delivery.OnEnd(report);
  clock.Step(24h);
  const int before = failed;
  while (failed < before + 3 && dropped == 0) std::this_thread::sleep_for(1ms);
  away = false;
  while (arrived + dropped == 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(arrived, 1);
  EXPECT_EQ(dropped, 0);
}

// Regression: the retry claimed the run again, and the trace lay in the logdir without its
// manifest.
TEST_F(UploadDeliveryTest, AKeptTraceEndsWithItsRun) {
  std::atomic<int> arrived{0};
  UploadDelivery delivery(clock_, stores_, spool_.get(), {.first_wait = 1h},
                          {.late = [&] { ++arrived; }});
  int puts = 0;  // The first one of each capture claims its run.
  bucket_.before = [&](const std::string& call) {
    const bool trace = call == "put" && ++puts % 2 == 0;
    return trace ? absl::PermissionDeniedError("not now") : absl::OkStatus();
  };
  for (const char* id : {"a", "b"}) KeepFailed(delivery, id);
  bucket_.before = nullptr;
  const auto store = stores_.Open(*storage::Logdir::Parse("s3://b/logs"), {});
  ASSERT_EQ(storage::DeleteBelow(**store, storage::RunPrefix("run-a")).value_or(0), 1u)
      << "its claim";
  delivery.LastTry(10s);
  EXPECT_FALSE(spool_->HasTrace("a") || spool_->HasTrace("b"));
  EXPECT_EQ(bucket_.Bytes(Key("a")) + bucket_.Bytes(Key("b")), "trace");
  EXPECT_EQ(arrived, 1);
}

// Regression: the parts were billed until a rule of the bucket removed them.
TEST_F(UploadDeliveryTest, AnUploadWhoseRunHasAnotherNameSinceIsAborted) {
  const std::vector<std::string> pieces = {std::string(20 << 20, 'x')};
  const v1::Report report = Report("a", pieces);
  UploadDelivery delivery(clock_, stores_, spool_.get());
  bucket_.before = [](const std::string& call) {
    return call == "commit" ? absl::PermissionDeniedError("not yet") : absl::OkStatus();
  };
  EXPECT_FALSE(delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().ok());
  EXPECT_EQ(bucket_.OpenUploads(), 1u);
  // The run is deleted, and another capture takes its name.
  const auto store = stores_.Open(*storage::Logdir::Parse("s3://b/logs"), {});
  ASSERT_TRUE(storage::PutText(**store, storage::ClaimKey("run-a"), "another capture").ok());
  EXPECT_FALSE(delivery.Resume(report, cancel_).front().ok());
  EXPECT_EQ(bucket_.OpenUploads(), 1u) << "that of the new name";
  bucket_.before = nullptr;
  const auto url = delivery.Resume(report, cancel_).front();
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_THAT(*url, HasSubstr("run-a_2"));
  EXPECT_EQ(bucket_.OpenUploads(), 0u);
  EXPECT_EQ(bucket_.Bytes(storage::TraceKey("run-a_2", "w0")), pieces[0]);
}

// Regression: such a trace ended as UploadDenied.
TEST_F(UploadDeliveryTest, ALostAnswerToAnIdentityThatMayOnlyWriteIsNoRefusal) {
  for (const char* id : {"a", "b"}) {
    const std::vector<std::string> pieces = {
        std::string(id == std::string("a") ? 5 : 20 << 20, 'x')};
    const v1::Report report = Report(id, pieces);
    UploadDelivery delivery(clock_, stores_, spool_.get());
    bucket_.before = [](const std::string& call) {
      return call == "stat" || call == "read" || call == "list"
                 ? absl::PermissionDeniedError("not yours")
                 : absl::OkStatus();
    };
    bucket_.after = [](const std::string& call) {
      return call == "put" || call == "commit" ? absl::UnavailableError("cut") : absl::OkStatus();
    };
    EXPECT_TRUE(absl::IsUnavailable(
        delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().status()));
    bucket_.after = nullptr;
    const auto url = delivery.Resume(report, cancel_).front();
    EXPECT_TRUE(url.ok()) << url.status();
    EXPECT_EQ(
        bucket_.Bytes(storage::TraceKey(storage::UnclaimedRun(report.plan().run(), id), "w0")),
        pieces[0]);
    EXPECT_EQ(bucket_.OpenUploads(), 0u);
  }
}

// Remembers the limits of the last store.
class LimitedStores final : public storage::StoreOpener {
 public:
  explicit LimitedStores(MemoryBucket& bucket) : stores_(bucket) {}
  absl::StatusOr<std::unique_ptr<storage::ObjectStore>> Open(
      const storage::Logdir& logdir, const storage::StoreLimits& limits) override {
    last = limits;
    return stores_.Open(logdir, limits);
  }
  storage::StoreLimits last{};

 private:
  MemoryStores stores_;
};

// The limits of the store that uploads are often why an upload in parts failed.
TEST_F(UploadDeliveryTest, AnUploadFromMemoryThatFailsIsAbortedWithATimeOfItsOwn) {
  LimitedStores stores(bucket_);
  UploadDelivery delivery(clock_, stores, nullptr);
  const std::vector<std::string> pieces = {std::string(20 << 20, 'x')};
  v1::Report report = Report("a", pieces);
  bucket_.before = [&](const std::string& call) {
    if (call != "commit") return absl::OkStatus();
    cancel_.Cancel();
    return absl::CancelledError("cancelled");
  };
  EXPECT_FALSE(delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().ok());
  EXPECT_EQ(bucket_.OpenUploads(), 0u);
  EXPECT_NE(stores.last.cancellation, &cancel_);
  EXPECT_EQ(bucket_.Count("abort"), 1u);
}

constexpr Nanos kBackToThe70s = -50 * 365 * 24h;

// Regression: if a machine took its time for 1970 when it had just started, the worker was Busy for
// as long as its store was away.
TEST_F(UploadDeliveryTest, AResumedUploadHasNoMoreTimeThanItsPlanGave) {
  SteppedClock clock;
  v1::Report report = Report("a", {"trace"});
  report.mutable_plan()->set_instant_ns(report.plan().deadline_ns() - Nanos(60s).count());
  const std::array<std::string_view, 1> pieces = {"trace"};
  ASSERT_TRUE(spool_->Add("a", pieces).ok());
  ASSERT_TRUE(spool_->SaveReport(report).ok());
  LimitedStores stores(bucket_);
  UploadDelivery delivery(clock, stores, spool_.get());
  ASSERT_TRUE(delivery.Resume(report, cancel_).front().ok());
  EXPECT_TRUE(stores.last.deadline <= clock.MonoNow() + 30s) << "what is left by the right clock";
  clock.Step(kBackToThe70s);
  const MonoTime resumed = clock.MonoNow();
  ASSERT_TRUE(delivery.Resume(report, cancel_).front().ok());
  EXPECT_TRUE(stores.last.deadline >= resumed + 60s);
  EXPECT_TRUE(stores.last.deadline <= clock.MonoNow() + 60s);
}

TEST_F(UploadDeliveryTest, AClockThatIsBehindKeepsNoTraceForDecades) {
  v1::Report report = Report("a", {"trace"});
  report.set_state(v1::DONE);
  report.set_outcome(v1::UPLOAD_FAILED);
  const std::array<std::string_view, 1> pieces = {"trace"};
  ASSERT_TRUE(spool_->Add("a", pieces).ok());
  ASSERT_TRUE(spool_->SaveReport(report).ok());
  spool_.reset();
  spool_ = *Spool::Open(directory_, 64 << 20);
  bucket_.before = [](const std::string&) { return absl::PermissionDeniedError("not now"); };
  SteppedClock clock;
  clock.Step(kBackToThe70s);
  Notification dropped;
  UploadDelivery delivery(clock, stores_, spool_.get(), {.keep = 1ms, .first_wait = 1ms},
                          {.dropped = [&] { dropped.Notify(); }});
  EXPECT_TRUE(dropped.WaitFor(10s));
  EXPECT_FALSE(spool_->HasTrace("a"));
}

TEST_F(UploadDeliveryTest, ACancelledCaptureLeavesNothing) {
  const std::vector<std::string> pieces = {std::string(20 << 20, 'x')};
  v1::Report report = Report("a", pieces);
  UploadDelivery delivery(clock_, stores_, spool_.get());
  CancelAtCommit(delivery, pieces, report);
  delivery.OnEnd(report);
  EXPECT_FALSE(spool_->HasTrace("a"));
  EXPECT_EQ(bucket_.OpenUploads(), 0u);
}

// Regression: an operator that had no report after the deadline cancelled the capture, and the only
// copy of the trace was removed.
TEST_F(UploadDeliveryTest, ACancellationAfterTheDeadlineKeepsTheTrace) {
  const std::vector<std::string> pieces = {std::string(20 << 20, 'x')};
  UploadDelivery delivery(clock_, stores_, spool_.get());
  for (const bool late : {false, true}) {
    v1::Report report = Report(late ? "late" : "early", pieces);
    if (late) report.mutable_plan()->set_deadline_ns(ToUnixNanos(clock_.WallNow()));
    bucket_.before = [](const std::string& call) {
      return call == "commit" ? absl::CancelledError("cancelled") : absl::OkStatus();
    };
    const absl::Status status =
        delivery.Deliver(report, {Pieces(pieces)}, cancel_, [] {}).front().status();
    EXPECT_EQ(status.code(),
              late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled);
  }
}

TEST_F(UploadDeliveryTest, TracesThatAreKeptGetOneMoreTryBeforeTheEnd) {
  std::atomic<bool> away{true};
  bucket_.before = [&](const std::string&) {
    return away ? absl::PermissionDeniedError("not now") : absl::OkStatus();
  };
  UploadDelivery delivery(clock_, stores_, spool_.get(), {.first_wait = 1h});
  delivery.LastTry(10s);
  for (const char* id : {"a", "b"}) KeepFailed(delivery, id);
  const MonoTime began = clock_.MonoNow();
  delivery.LastTry(10s);
  EXPECT_LT(clock_.MonoNow() - began, 9s) << "each was tried, in vain";
  EXPECT_TRUE(spool_->HasTrace("a") && spool_->HasTrace("b"));
  away = false;
  delivery.LastTry(10s);
  EXPECT_EQ(bucket_.Bytes(Key("a")) + bucket_.Bytes(Key("b")), "tracetrace");
  EXPECT_FALSE(spool_->HasTrace("a") || spool_->HasTrace("b"));
}

// Regression: the sidecar did not serve before all such uploads were aborted, five seconds each
// where the store could not be reached.
TEST_F(UploadDeliveryTest, WhatWasCancelledBeforeIsDroppedWithoutDelayingTheStart) {
  const std::vector<std::string> pieces = {std::string(20 << 20, 'x')};
  v1::Report report = Report("a", pieces);
  {
    UploadDelivery delivery(clock_, stores_, spool_.get());
    CancelAtCommit(delivery, pieces, report);
  }
  ASSERT_TRUE(spool_->SaveReport(report).ok());  // Killed before it removed the trace.
  spool_.reset();
  spool_ = *Spool::Open(directory_, 64 << 20);
  Notification reachable;
  bucket_.before = [&](const std::string&) {
    reachable.WaitFor(10s);
    return absl::OkStatus();
  };
  UploadDelivery delivery(clock_, stores_, spool_.get());
  EXPECT_TRUE(spool_->HasTrace("a")) << "nobody has waited for the store";
  EXPECT_EQ(bucket_.OpenUploads(), 1u);
  reachable.Notify();
  while (spool_->HasTrace("a")) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(bucket_.OpenUploads(), 0u);
  EXPECT_EQ(bucket_.Bytes(Key("a")), "");
}

// Regression: the process ended five seconds late where a store could not be reached.
TEST_F(UploadDeliveryTest, ItsEndWaitsForNoStore) {
  const std::vector<std::string> pieces = {std::string(20 << 20, 'x')};
  v1::Report report = Report("a", pieces);
  LimitedStores stores(bucket_);
  auto delivery = std::make_unique<UploadDelivery>(clock_, stores, spool_.get());
  CancelAtCommit(*delivery, pieces, report);
  Notification asked;
  bucket_.before = [&](const std::string&) {
    asked.Notify();
    const Cancellation* const cancel = stores.last.cancellation;
    return cancel != nullptr && cancel->WaitFor(20s) ? absl::CancelledError("cancelled")
                                                     : absl::DeadlineExceededError("not there");
  };
  std::thread capture([&] { delivery->OnEnd(report); });
  asked.Wait();
  delivery->Stop();
  capture.join();
  EXPECT_TRUE(spool_->HasTrace("a")) << "the next process is to abort its upload";
  delivery.reset();
  bucket_.before = nullptr;
  spool_.reset();
  spool_ = *Spool::Open(directory_, 64 << 20);
  UploadDelivery next(clock_, stores, spool_.get());
  while (spool_->HasTrace("a")) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(bucket_.OpenUploads(), 0u);
}

// A disk that has no room for a report until the trace of rank 0 is gone. The delivery asks for the
// time when it keeps the trace of rank 1.
class FullDiskClock final : public Clock {
 public:
  explicit FullDiskClock(std::string directory) : directory_(std::move(directory)) {}
  WallTime WallNow() const override {
    if (!fs::exists(directory_ + "/a@0.xplane.pb")) fs::remove(ReportDraft());
    return system_.WallNow();
  }
  MonoTime MonoNow() const override { return system_.MonoNow(); }
  // A directory in the place of the file that a report is written to first.
  void Fill() const { fs::create_directories(ReportDraft()); }

 private:
  std::string ReportDraft() const { return directory_ + "/.a.report.json.partial"; }
  const std::string directory_;
  const SystemClock system_{};
};

// Regression: the next sidecar said of a capture that had ended well that its trace was lost.
TEST_F(UploadDeliveryTest, AReportIsSavedOnceTheUploadedTraceHasMadeRoom) {
  const FullDiskClock clock(directory_);
  v1::Report report = Report("a", {});
  for (std::uint32_t i = 0; i < 2; ++i) {
    v1::Report& worker = *report.add_workers();
    worker = Report("a", {"trace"});
    worker.mutable_rank()->set_local_rank(i);
    worker.mutable_plan()->set_worker("w0." + std::to_string(i));
  }
  auto delivery = std::make_unique<UploadDelivery>(clock, stores_, spool_.get());
  const auto urls =
      delivery->Deliver(report, {Pieces({"trace"}), Pieces({"trace"})}, cancel_, [] {});
  ASSERT_TRUE(urls[0].ok()) << urls[0].status();
  report.set_state(v1::DONE);
  report.mutable_workers(0)->set_url(*urls[0]);
  clock.Fill();
  delivery->OnEnd(report);
  EXPECT_FALSE(spool_->HasTrace("a@0"));
  delivery.reset();
  spool_.reset();
  spool_ = *Spool::Open(directory_, 64 << 20);
  ASSERT_EQ(spool_->recovered().size(), 1u);
  EXPECT_EQ(spool_->recovered()[0].state(), v1::DONE);
  EXPECT_EQ(spool_->recovered()[0].workers(0).url(), *urls[0]);
}

TEST_F(UploadDeliveryTest, EndedReportsSurvive) {
  UploadDelivery delivery(clock_, stores_, spool_.get());
  v1::Report report = Report("a", {});
  report.set_state(v1::DONE);
  report.set_outcome(v1::NO_SOURCE);
  delivery.OnEnd(report);
  spool_.reset();
  spool_ = *Spool::Open(directory_, 1);
  ASSERT_EQ(spool_->recovered().size(), 1u);
  EXPECT_EQ(spool_->recovered()[0].outcome(), v1::NO_SOURCE);
}

class OriginalTest : public UploadDeliveryTest {
 protected:
  // A file that is gone when it is closed, as those of processes are.
  session::Original Original(const std::string& text) {
    const std::string path = directory_ + "/original";
    std::ofstream(path) << text;
    session::Original original{"train.py 7", "", 3,
                               FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC))};
    fs::remove(path);
    return original;
  }
  std::vector<std::string> Spooled() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_))
      names.push_back(entry.path().filename());
    return names;
  }
  static constexpr char kKey[] = "plugins/profile/run-a/w0.3.pt.trace.json.gz";
};

TEST_F(OriginalTest, LiesBesideTheTraceAndNamesItsCapture) {
  UploadDelivery delivery(clock_, stores_, spool_.get());
  const auto name =
      delivery.DeliverOriginal(Report("a", {}), Original(std::string(1 << 20, 'x')), cancel_);
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(*name, "w0.3.pt.trace.json.gz");
  EXPECT_EQ(session::CaptureOfHead(bucket_.Bytes(kKey)), "a");
  EXPECT_LT(bucket_.Bytes(kKey).size(), 10'000u);
  EXPECT_THAT(Spooled(), testing::ElementsAre("lock"));
}

TEST_F(OriginalTest, WithoutRoomOrTimeItIsLeftOut) {
  UploadDelivery delivery(clock_, stores_, spool_.get());
  v1::Report report = Report("a", {});
  report.mutable_plan()->set_max_bytes(100);
  EXPECT_TRUE(absl::IsResourceExhausted(
      delivery.DeliverOriginal(report, Original(std::string(1 << 20, 'x')), cancel_).status()));
  report = Report("a", {});
  report.mutable_plan()->set_deadline_ns(ToUnixNanos(clock_.WallNow()));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(delivery.DeliverOriginal(report, Original("x"), cancel_).status()));
  report = Report("a", {});
  bucket_.before = [](const std::string&) { return absl::PermissionDeniedError("no"); };
  EXPECT_TRUE(
      absl::IsPermissionDenied(delivery.DeliverOriginal(report, Original("x"), cancel_).status()));
  cancel_.Cancel();
  EXPECT_TRUE(absl::IsCancelled(delivery.DeliverOriginal(report, Original("x"), cancel_).status()));
  UploadDelivery without(clock_, stores_, nullptr);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(without.DeliverOriginal(report, Original("x"), cancel_).status()));
  EXPECT_THAT(Spooled(), testing::ElementsAre("lock"));
}

TEST_F(UploadDeliveryTest, WorksWithoutASpool) {
  UploadDelivery delivery(clock_, stores_, nullptr);
  EXPECT_TRUE(delivery.CheckSpace({}).ok());
  const std::vector<std::string> pieces = {"trace"};
  EXPECT_TRUE(delivery.Deliver(Report("a", pieces), {Pieces(pieces)}, cancel_, [] {}).front().ok());
  EXPECT_EQ(bucket_.Bytes(Key("a")), "trace");
}

}  // namespace
}  // namespace strobe::spool
