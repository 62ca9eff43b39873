#include "sidecar/spool/upload_delivery.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "collector/store/byte_source.h"
#include "collector/store/run_claim.h"
#include "collector/store/upload.h"
#include "common/base/duration.h"
#include "common/base/log.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "sidecar/spool/gzip_file.h"

namespace strobe::spool {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t kMinRoom = 1 << 20;
constexpr Nanos kMaxWait = minutes(10);
// Limits for one attempt in the background, and for aborting an upload.
constexpr Nanos kBackgroundTry = minutes(10);
constexpr Nanos kAbortTry = seconds(5);
// An attempt in the background has more time for a trace than this rate takes. Some stores keep
// nothing of an attempt that is cut.
constexpr std::uint64_t kSlowestRate = storage::Pace::kMinRate;
// Traces of one capture that are uploaded at the same time.
constexpr std::size_t kUploadsAtOnce = 4;

// Whether the run's name has the capture's id, so that nobody else writes into it. Workers that may
// not read the logdir write into such runs, and cannot see what is there.
bool IsOwnRun(const v1::CapturePlan& plan, const std::string& run) {
  return run == storage::UnclaimedRun(plan.run(), plan.capture_id());
}

}  // namespace

UploadDelivery::UploadDelivery(const Clock& clock, storage::StoreOpener& stores, Spool* spool,
                               UploadLimits limits, UploadEvents events)
    : clock_(clock),
      stores_(stores),
      spool_(spool),
      limits_(limits),
      events_(std::move(events)),
      kept_(clock, [this](KeptTrace kept) { return TryKept(std::move(kept)); }) {
  if (limits_.bytes_per_second > 0) pace_.emplace(limits_.bytes_per_second);
  if (spool_ == nullptr) return;
  for (const v1::Report& report : spool_->recovered()) {
    if (report.state() != v1::DONE) continue;
    // Only wall times are known of what an earlier process kept. If the clock is behind, the trace
    // is kept as long as one that has just failed.
    const Nanos left = std::min<Nanos>(
        FromUnixNanos(report.plan().deadline_ns()) + limits_.keep - clock_.WallNow(), limits_.keep);
    for (const SpooledTrace& trace : TracesOf(report)) {
      // Left to the thread below: aborting an upload takes seconds where the store cannot be
      // reached, and the sidecar is to serve at once.
      if (trace.report->outcome() == v1::CANCELLED && trace.report->url().empty())
        DropLater(trace);
      else
        RemoveOrKeep(trace, left);
    }
  }
  kept_.Start();
}

UploadDelivery::~UploadDelivery() { Stop(); }

void UploadDelivery::Stop() {
  stopping_.Cancel();
  kept_.Stop();
}

void UploadDelivery::LastTry(Nanos within) { kept_.AttemptAll(within); }

absl::Status UploadDelivery::CheckSpace(const v1::CapturePlan& plan) {
  if (spool_ == nullptr) return absl::OkStatus();
  const std::uint64_t free = spool_->free_bytes();
  const std::uint64_t wanted = std::max<std::uint64_t>(kMinRoom, plan.max_bytes());
  if (free >= wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(StrCat(
      "the spool has ", free, " bytes free, but this capture may need ", wanted, "; ",
      spool_->traces(), " traces with ", spool_->used_bytes(), " bytes are waiting for upload"));
}

storage::StoreLimits UploadDelivery::LimitsOf(const v1::CapturePlan& plan,
                                              const Cancellation& cancel) const {
  const Nanos left = FromUnixNanos(plan.deadline_ns()) - clock_.WallNow();
  // Retries failures that a retry can cure until the deadline.
  return {.deadline = clock_.MonoNow() + left, .patience = Nanos::max(), .cancellation = &cancel};
}

// Every upload begins after its plan's instant, so none ever had more time left than from there. A
// machine whose clock says 1970 after a restart would otherwise try for decades, and the worker
// would be Busy for as long.
storage::StoreLimits UploadDelivery::ResumeLimitsOf(const v1::CapturePlan& plan,
                                                    const Cancellation& cancel) const {
  storage::StoreLimits limits = LimitsOf(plan, cancel);
  const Nanos most{plan.deadline_ns() - plan.instant_ns()};
  limits.deadline = std::min(limits.deadline, clock_.MonoNow() + most);
  return limits;
}

absl::StatusOr<std::string> UploadDelivery::UploadNow(const SpooledTrace& trace,
                                                      const storage::ByteSource& bytes,
                                                      const storage::StoreLimits& limits,
                                                      bool spooled) {
  const v1::Report& report = *trace.report;
  const v1::CapturePlan& plan = report.plan();
  ASSIGN_OR_RETURN(const storage::Logdir logdir, storage::Logdir::Parse(plan.logdir()));
  ASSIGN_OR_RETURN(const std::unique_ptr<storage::ObjectStore> store, stores_.Open(logdir, limits));
  ASSIGN_OR_RETURN(const std::string run, storage::ClaimRun(*store, plan.run(), plan.capture_id()));
  const std::string key = storage::TraceKey(run, plan.worker());
  storage::UploadOptions options{.sha256 = report.sha256(), .key_is_own = IsOwnRun(plan, run)};
  if (!spooled) {
    RETURN_IF_ERROR(UploadOnce(*store, plan.logdir(), key, bytes, limits, options));
    return logdir.UrlOf(key);
  }
  std::string id;
  bool warned = false;
  ASSIGN_OR_RETURN(options.resume, JournalFor(trace, key));
  options.save = [&](storage::UploadState state) {
    state.key = key;
    id = state.id;
    const absl::Status saved = spool_->SaveUpload(trace.id, state);
    if (!saved.ok() && !std::exchange(warned, true))
      LogWarning("the journal of an upload cannot be written; the upload continues without it",
                 {{"capture", report.capture_id()}, {"error", MessageOf(saved)}});
  };
  const absl::Status status = UploadPaced(*store, key, bytes, limits, options);
  if (status.ok()) return logdir.UrlOf(key);
  // An upload that is not in the journal is never resumed.
  const storage::UploadState journal = spool_->LoadUpload(trace.id);
  if (journal.id != id) (void)AbortUpload(plan.logdir(), key, id);
  if (journal.key.empty()) (void)spool_->SaveUpload(trace.id, {.key = key});
  return status;
}

absl::StatusOr<storage::UploadState> UploadDelivery::JournalFor(const SpooledTrace& trace,
                                                                const std::string& key) {
  storage::UploadState journal = spool_->LoadUpload(trace.id);
  if (journal.key.empty() || journal.key == key) return journal;
  if (!AbortUpload(trace.report->plan().logdir(), journal.key, journal.id))
    return absl::CancelledError("the sidecar ends");
  journal = {.key = key};
  (void)spool_->SaveUpload(trace.id, journal);
  return journal;
}

// Whether the run was deleted after an earlier attempt had claimed it.
bool UploadDelivery::RunIsGone(const SpooledTrace& trace, const storage::StoreLimits& limits) {
  const v1::CapturePlan& plan = trace.report->plan();
  const std::string key = spool_->LoadUpload(trace.id).key;
  if (key.empty() ||
      key == storage::TraceKey(storage::UnclaimedRun(plan.run(), plan.capture_id()), plan.worker()))
    return false;
  const auto store = storage::OpenStore(stores_, plan.logdir(), limits);
  return store.ok() &&
         absl::IsNotFound(storage::FindClaimedRun(**store, plan.run(), plan.capture_id()).status());
}

// Aborts the upload itself if it fails: the limits of `store`, which often are why it failed, leave
// no time for that.
absl::Status UploadDelivery::UploadOnce(storage::ObjectStore& store, const std::string& logdir,
                                        const std::string& key, const storage::ByteSource& bytes,
                                        const storage::StoreLimits& limits,
                                        storage::UploadOptions options) {
  std::string id;
  options.save = [&](const auto& state) { id = state.id; };
  absl::Status status = UploadPaced(store, key, bytes, limits, options);
  if (!status.ok()) (void)AbortUpload(logdir, key, id);
  return status;
}

absl::Status UploadDelivery::UploadPaced(storage::ObjectStore& store, const std::string& key,
                                         const storage::ByteSource& bytes,
                                         const storage::StoreLimits& limits,
                                         storage::UploadOptions options) {
  if (!pace_) return storage::Upload(store, key, bytes, options);
  if (store.uploads() == nullptr)
    return storage::Upload(store, key, storage::PacedBytes(bytes, *pace_, clock_, limits), options);
  options.pace = [&](std::uint64_t more) { return pace_->WaitFor(more, clock_, limits); };
  return storage::Upload(store, key, bytes, options);
}

absl::StatusOr<std::string> UploadDelivery::UploadSpooled(const SpooledTrace& trace,
                                                          const storage::StoreLimits& limits) {
  const std::string path = spool_->TracePath(trace.id);
  ASSIGN_OR_RETURN(const std::unique_ptr<storage::FileBytes> bytes, storage::FileBytes::Open(path));
  if (!trace.report->sha256().empty()) return UploadNow(trace, *bytes, limits, /*spooled=*/true);
  // Older sidecars cleared the checksum when an upload failed.
  v1::Report with_checksum = *trace.report;
  ASSIGN_OR_RETURN(*with_checksum.mutable_sha256(), storage::HashBytes(*bytes));
  return UploadNow({trace.id, &with_checksum}, *bytes, limits, /*spooled=*/true);
}

// An operator that has no report after the deadline cancels the capture. Nobody asked to discard
// the trace then: it is kept as if the store had not accepted it in time.
absl::StatusOr<std::string> UploadDelivery::KeptAfter(MonoTime deadline,
                                                      absl::StatusOr<std::string> url) const {
  if (!absl::IsCancelled(url.status()) || clock_.MonoNow() < deadline) return url;
  return absl::DeadlineExceededError("the capture's deadline has passed");
}

std::vector<bool> UploadDelivery::Store(const v1::Report& report,
                                        std::vector<session::TracePieces>& traces) {
  std::vector<bool> stored(traces.size(), false);
  if (spool_ == nullptr) return stored;
  const std::vector<SpooledTrace> files = TracesOf(report);
  absl::Status status;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (traces[i].empty()) continue;
    const absl::Status added = spool_->Add(files[i].id, session::ViewsOf(traces[i]));
    stored[i] = added.ok();
    status.Update(added);
  }
  if (const absl::Status saved = spool_->SaveReport(report); !saved.ok()) {
    for (std::size_t i = 0; i < traces.size(); ++i) {
      if (stored[i]) spool_->RemoveTrace(files[i].id);
    }
    stored.assign(traces.size(), false);
    status.Update(saved);
  }
  // A trace that could not be stored is uploaded from memory instead of being lost. It is lost only
  // if this process ends meanwhile.
  if (!status.ok())
    LogWarning("a trace does not fit into the spool and is uploaded from memory",
               {{"capture", report.capture_id()}, {"error", MessageOf(status)}});
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (stored[i]) session::TracePieces().swap(traces[i]);
  }
  return stored;
}

std::vector<absl::StatusOr<std::string>> UploadDelivery::Deliver(
    const v1::Report& report, std::vector<session::TracePieces> traces, const Cancellation& cancel,
    const std::function<void()>& uploading) {
  const std::vector<bool> stored = Store(report, traces);
  uploading();
  const std::vector<SpooledTrace> files = TracesOf(report);
  std::vector<absl::StatusOr<std::string>> urls(files.size(), std::string());
  ParallelFor(files.size(), kUploadsAtOnce, [&](std::size_t i) {
    if (stored[i]) {
      const storage::StoreLimits limits = LimitsOf(report.plan(), cancel);
      urls[i] = KeptAfter(limits.deadline, UploadSpooled(files[i], limits));
    } else if (!traces[i].empty()) {
      const std::vector<std::string_view> views = session::ViewsOf(traces[i]);
      urls[i] = UploadNow(files[i], storage::MemoryBytes(views), LimitsOf(report.plan(), cancel),
                          /*spooled=*/false);
    }
  });
  return urls;
}

bool UploadDelivery::CanResume(const v1::Report& report) {
  if (spool_ == nullptr || report.state() != v1::UPLOADING) return false;
  const std::vector<SpooledTrace> traces = TracesOf(report);
  return std::any_of(traces.begin(), traces.end(),
                     [this](const SpooledTrace& trace) { return spool_->HasTrace(trace.id); });
}

std::vector<absl::StatusOr<std::string>> UploadDelivery::Resume(const v1::Report& report,
                                                                const Cancellation& cancel) {
  const std::vector<SpooledTrace> traces = TracesOf(report);
  std::vector<absl::StatusOr<std::string>> urls(traces.size(), std::string());
  ParallelFor(traces.size(), kUploadsAtOnce, [&](std::size_t i) {
    if (spool_->HasTrace(traces[i].id)) {
      const storage::StoreLimits limits = ResumeLimitsOf(report.plan(), cancel);
      urls[i] = KeptAfter(limits.deadline, UploadSpooled(traces[i], limits));
    } else if (traces[i].report->bytes() > 0) {
      urls[i] = absl::DataLossError("the sidecar was restarted and the trace was lost");
    }
  });
  return urls;
}

absl::StatusOr<std::string> UploadDelivery::DeliverOriginal(const v1::Report& report,
                                                            const session::Original& original,
                                                            const Cancellation& cancel) {
  if (spool_ == nullptr) return absl::FailedPreconditionError("the sidecar has no --spool-dir");
  const v1::CapturePlan& plan = report.plan();
  const storage::StoreLimits limits = LimitsOf(plan, cancel);
  const std::string path = spool_->ScratchPath(plan.capture_id());
  const std::uint64_t room = spool_->free_bytes();
  RETURN_IF_ERROR(GzipFile(
      original.file, path, session::OriginalComment(plan.capture_id()),
      {.max_bytes = plan.max_bytes() > 0 ? std::min(plan.max_bytes(), room) : room, .check = [&] {
         if (cancel.cancelled()) return absl::CancelledError("the capture was cancelled");
         return clock_.MonoNow() < limits.deadline
                    ? absl::OkStatus()
                    : absl::DeadlineExceededError("the capture's deadline has passed");
       }}));
  const absl::StatusOr<std::string> name = UploadOriginal(plan, original, path, limits);
  std::remove(path.c_str());
  return name;
}

absl::StatusOr<std::string> UploadDelivery::UploadOriginal(const v1::CapturePlan& plan,
                                                           const session::Original& original,
                                                           const std::string& path,
                                                           const storage::StoreLimits& limits) {
  ASSIGN_OR_RETURN(const std::unique_ptr<storage::FileBytes> bytes, storage::FileBytes::Open(path));
  ASSIGN_OR_RETURN(const std::string sha256, storage::HashBytes(*bytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<storage::ObjectStore> store,
                   storage::OpenStore(stores_, plan.logdir(), limits));
  ASSIGN_OR_RETURN(const std::string run, storage::ClaimRun(*store, plan.run(), plan.capture_id()));
  std::string name = session::OriginalName(plan.worker(), original);
  RETURN_IF_ERROR(UploadOnce(*store, plan.logdir(), storage::RunPrefix(run) + name, *bytes, limits,
                             {.sha256 = sha256, .key_is_own = IsOwnRun(plan, run)}));
  return name;
}

void UploadDelivery::OnEnd(const v1::Report& report) {
  if (spool_ == nullptr) return;
  absl::Status saved = spool_->SaveReport(report);
  // Done last: if the process is killed before the report is stored, the next one finds the trace
  // and sees that the store has it.
  for (const SpooledTrace& trace : TracesOf(report)) RemoveOrKeep(trace, limits_.keep);
  // On a full disk, the traces that are gone now have made room. Without this report, the next
  // process would call them lost.
  if (!saved.ok()) saved = spool_->SaveReport(report);
  if (!saved.ok()) LogWarning("cannot keep a report in the spool", {{"error", MessageOf(saved)}});
}

void UploadDelivery::RemoveOrKeep(const SpooledTrace& trace, Nanos keep) {
  if (!spool_->HasTrace(trace.id)) return;
  if (!trace.report->url().empty()) return spool_->RemoveTrace(trace.id);
  if (trace.report->outcome() == v1::CANCELLED) return (void)Drop(trace);
  Keep(trace, keep);
}

void UploadDelivery::Keep(const SpooledTrace& trace, Nanos keep) {
  LogWarning("the trace stays in the spool; its upload will be tried again",
             {{"capture", trace.report->capture_id()},
              {"file", spool_->TracePath(trace.id)},
              {"until", FormatRfc3339(clock_.WallNow() + keep)}});
  kept_.Add({.id = trace.id,
             .report = *trace.report,
             .next = clock_.MonoNow() + limits_.first_wait,
             .wait = limits_.first_wait,
             .until = clock_.MonoNow() + keep});
}

void UploadDelivery::DropLater(const SpooledTrace& trace) {
  if (!spool_->HasTrace(trace.id)) return;
  kept_.Add({.id = trace.id, .report = *trace.report, .next = clock_.MonoNow(), .unwanted = true});
}

bool UploadDelivery::Drop(const SpooledTrace& trace) {
  const v1::CapturePlan& plan = trace.report->plan();
  const storage::UploadState state = spool_->LoadUpload(trace.id);
  const std::string key =
      state.key.empty() ? storage::TraceKey(plan.run(), plan.worker()) : state.key;
  if (!AbortUpload(plan.logdir(), key, state.id)) return false;
  spool_->RemoveTrace(trace.id);
  return true;
}

bool UploadDelivery::AbortUpload(const std::string& logdir, const std::string& key,
                                 const std::string& id) {
  if (id.empty()) return true;
  const auto store = storage::OpenStore(
      stores_, logdir, {.deadline = clock_.MonoNow() + kAbortTry, .cancellation = &stopping_});
  if (!store.ok() || (*store)->uploads() == nullptr) return true;
  return (*store)->uploads()->Abort(key, id).ok() || !stopping_.cancelled();
}

std::optional<KeptTrace> UploadDelivery::TryKept(KeptTrace kept) {
  const std::string& capture = kept.report.capture_id();
  const SpooledTrace trace{kept.id, &kept.report};
  const Nanos transfer = seconds(kept.report.bytes() / kSlowestRate);
  const storage::StoreLimits limits = {.deadline = clock_.MonoNow() + kBackgroundTry + transfer,
                                       .patience = seconds(5),
                                       .cancellation = &stopping_};
  if (!kept.unwanted && RunIsGone(trace, limits)) {
    LogInfo("the run of a kept trace was deleted, and the trace with it", {{"capture", capture}});
    kept.unwanted = true;
  }
  if (kept.unwanted) {
    if (Drop(trace)) return std::nullopt;
    return kept;
  }
  const auto url = UploadSpooled(trace, limits);
  if (url.ok()) {
    LogInfo("a kept trace was uploaded", {{"capture", capture}, {"url", *url}});
    spool_->RemoveTrace(kept.id);
    if (events_.late) events_.late();
    return std::nullopt;
  }
  if (stopping_.cancelled()) return kept;
  if (clock_.MonoNow() > kept.until) {
    LogError("a kept trace could not be uploaded in time and is discarded",
             {{"capture", capture}, {"error", MessageOf(url.status())}});
    if (!Drop(trace)) return kept;
    if (events_.dropped) events_.dropped();
    return std::nullopt;
  }
  LogWarning("a kept trace still cannot be uploaded", {{"capture", capture},
                                                       {"error", MessageOf(url.status())},
                                                       {"again_in", FormatDuration(kept.wait)}});
  kept.next = clock_.MonoNow() + kept.wait;
  kept.wait = std::min(kept.wait * 2, kMaxWait);
  return kept;
}

}  // namespace strobe::spool
