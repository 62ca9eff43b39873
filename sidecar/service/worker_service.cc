#include "sidecar/service/worker_service.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "collector/store/logdir.h"
#include "collector/store/retrying_store.h"
#include "common/base/clock_steps.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/text/safe_text.h"
#include "sidecar/capture/engine_signs.h"
#include "sidecar/capture/stand_still.h"
#include "sidecar/service/run_owner.h"

namespace strobe::service {
namespace {

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// Measures how late this machine wakes a sleeping thread at present: the worst of a few short
// sleeps.
Nanos MeasureWakeLateness(const Clock& clock) {
  constexpr int kSleeps = 6;
  constexpr Nanos kSleep = std::chrono::microseconds(500);
  Nanos worst{0};
  for (int i = 0; i < kSleeps; ++i) {
    const MonoTime before = clock.MonoNow();
    std::this_thread::sleep_for(kSleep);
    worst = std::max(worst, clock.MonoNow() - before - kSleep);
  }
  return worst;
}

// Limits a store to nine tenths of the time that the caller still waits, which leaves the rest for
// the answer.
storage::StoreLimits LimitsOf(const grpc::ServerContext& context) {
  const Nanos left = context.deadline() - std::chrono::system_clock::now();
  // Divides first: the time left of a caller without a deadline is the largest that there is.
  const Nanos use = std::clamp<Nanos>(left / 10 * 9, Nanos{0}, std::chrono::minutes(10));
  return {.deadline = SystemClock().MonoNow() + use, .patience = use};
}

// How long a client may wait on one of the server's threads for a digest.
constexpr Nanos kMaxDigestWait = std::chrono::seconds(15);

// The bounds of ReadEvidenceRequest.max_bytes.
constexpr std::uint64_t kLeastEvidence = 64u << 10, kMostEvidence = 64u << 20;

// How long a file system may take to tell whether a logdir can be written to. One that hangs must
// not make the worker late.
constexpr Nanos kMaxLogdirLook = std::chrono::milliseconds(200);

constexpr int kMaxPings = 1000;  // Bounds the time that a client can occupy a thread.

}  // namespace

WorkerService::WorkerService(std::string name, const Clock& clock, session::CaptureRunner& runner,
                             session::Source& source, storage::StoreOpener& stores,
                             std::function<std::uint64_t()> spool_free,
                             std::vector<std::string> containers, EvidenceReader evidence)
    : name_(std::move(name)),
      clock_(clock),
      runner_(runner),
      source_(source),
      stores_(stores),
      spool_free_(std::move(spool_free)),
      containers_(std::move(containers)),
      evidence_(std::move(evidence)) {}

grpc::Status WorkerService::Describe(grpc::ServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeResponse* response) {
  response->set_version(kVersion);
  response->set_protocol(kWorkerProtocol);
  response->set_worker(name_);
  response->set_holder(runner_.holder());
  response->set_capture_lateness_ns(runner_.WorstLateness().count());
  if (spool_free_) response->set_spool_free_bytes(spool_free_());
  for (const std::string& container : containers_) response->add_containers(container);
  if (!request->capture_id().empty()) {
    if (const auto report = runner_.Find(request->capture_id()))
      *response->mutable_report() = *report;
  }
  std::vector<v1::StepPace> steps = source_.Steps();
  // A server without requests makes no iterations, and does not stand still.
  std::vector<v1::StepPace> judged = steps;
  const std::vector<session::EngineReading> engines = source_.Engines();
  session::RemoveMovingEngines(engines, clock_.MonoNow(), judged);
  if (const auto requests = session::RunningRequests(engines, clock_.MonoNow()))
    response->set_running_requests(*requests);
  *response->mutable_stall() = session::StallOf(judged, clock_.WallNow());
  // The rest takes time and only matters to a caller that is about to arm this worker.
  if (response->has_report() || !response->holder().empty()) return grpc::Status::OK;
  response->set_wake_lateness_ns(MeasureWakeLateness(clock_).count());
  response->set_lead_ns(source_.lead().count());
  const Nanos left = context->deadline() - std::chrono::system_clock::now();
  for (v1::Source& source :
       source_.Probe(std::clamp<Nanos>(left / 2, Nanos{0}, std::chrono::seconds(2)))) {
    *response->add_sources() = std::move(source);
  }
  for (v1::StepPace& pace : steps) *response->add_steps() = std::move(pace);
  return grpc::Status::OK;
}

grpc::Status WorkerService::ProbeClock(
    grpc::ServerContext*, grpc::ServerReaderWriter<v1::ClockPong, v1::ClockPing>* stream) {
  v1::ClockPing ping;
  for (int i = 0; i < kMaxPings && stream->Read(&ping); ++i) {
    v1::ClockPong pong;
    pong.set_received_ns(ToUnixNanos(clock_.WallNow()));
    pong.set_wall_less_monotonic_ns(WallLessMonotonic(clock_).count());
    pong.set_sequence(ping.sequence());
    pong.set_sent_ns(ToUnixNanos(clock_.WallNow()));
    if (!stream->Write(pong)) break;
  }
  return grpc::Status::OK;
}

std::string WorkerService::WhyNotContainer(const v1::CapturePlan& plan) const {
  if (plan.container().empty()) return "";
  if (std::find(containers_.begin(), containers_.end(), plan.container()) == containers_.end())
    return StrCat("this sidecar cannot distinguish the programs of container ", plan.container(),
                  " from those of other containers");
  if (plan.source() == v1::SOURCE_FRAMEWORK)
    return "the containers of a pod share its ports, so a profiler server cannot be attributed to "
           "one of them; use source Agent";
  return "";
}

grpc::Status WorkerService::Arm(grpc::ServerContext*, const v1::ArmRequest* request,
                                v1::ArmResponse* response) {
  if (const absl::Status status = session::CheckPlan(request->plan()); !status.ok())
    return ToGrpc(status);
  // A logdir that cannot be written to is refused now and not after the recording.
  const auto store = storage::OpenStore(stores_, request->plan().logdir(),
                                        {.deadline = SystemClock().MonoNow() + kMaxLogdirLook});
  if (!store.ok()) return ToGrpc(store.status());
  const absl::Status writable = (*store)->CheckWritable(storage::RunPrefix(request->plan().run()));
  if (storage::WillFailAgain(writable)) {
    response->set_refusal(absl::IsPermissionDenied(writable) ? v1::UPLOAD_DENIED
                                                             : v1::UPLOAD_FAILED);
    response->set_message(MessageOf(writable));
    return grpc::Status::OK;
  }
  if (const std::string why = WhyNotContainer(request->plan()); !why.empty()) {
    response->set_refusal(v1::NO_SOURCE);
    response->set_message(why);
    return grpc::Status::OK;
  }
  *response = runner_.Arm(request->plan());
  return grpc::Status::OK;
}

grpc::Status WorkerService::Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                                  grpc::ServerWriter<v1::Report>* writer) {
  v1::CaptureState told = v1::CAPTURE_STATE_UNSPECIFIED;
  // Short waits, because gRPC's synchronous servers tell only those who ask that the client is
  // gone.
  constexpr Nanos kSlice = std::chrono::milliseconds(200);
  while (!context->IsCancelled() && !stopping_) {
    const auto report = runner_.WaitForChange(request->capture_id(), told, kSlice);
    if (!report) {
      return grpc::Status(grpc::StatusCode::NOT_FOUND,
                          StrCat("this sidecar has no capture ", request->capture_id()));
    }
    if (report->state() == told) continue;
    told = report->state();
    if (!writer->Write(*report)) break;
    if (told == v1::DONE) return grpc::Status::OK;
  }
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the sidecar is shutting down; watch again");
}

grpc::Status WorkerService::Cancel(grpc::ServerContext*, const v1::CancelRequest* request,
                                   v1::CancelResponse* response) {
  if (request->keep()) {
    response->set_known(runner_.Terminate(request->capture_id()));
    return grpc::Status::OK;
  }
  response->set_known(runner_.Cancel(request->capture_id(),
                                     request->reason().empty() ? "cancelled" : request->reason()));
  return grpc::Status::OK;
}

grpc::Status WorkerService::ReadDigest(grpc::ServerContext* context,
                                       const v1::ReadDigestRequest* request,
                                       v1::ReadDigestResponse* response) {
  const Nanos patience = std::min<Nanos>(LimitsOf(*context).patience, kMaxDigestWait);
  const MonoTime give_up = clock_.MonoNow() + patience;
  // Short waits, as in Watch.
  constexpr Nanos kSlice = std::chrono::milliseconds(200);
  absl::StatusOr<std::string> digest;
  do {
    digest = runner_.Digest(request->capture_id(), request->worker(), std::min(kSlice, patience));
  } while (absl::IsUnavailable(digest.status()) && !context->IsCancelled() && !stopping_ &&
           clock_.MonoNow() < give_up);
  if (!digest.ok()) return ToGrpc(digest.status());
  response->set_digest(*std::move(digest));
  return grpc::Status::OK;
}

grpc::Status WorkerService::ReadEvidence(grpc::ServerContext* context,
                                         const v1::ReadEvidenceRequest* request,
                                         v1::ReadEvidenceResponse* response) {
  const std::uint64_t most = request->max_bytes();
  if (most != 0 && (most < kLeastEvidence || most > kMostEvidence))
    return grpc::Status(
        grpc::StatusCode::INVALID_ARGUMENT,
        StrCat("max_bytes must be 0, or from ", kLeastEvidence, " to ", kMostEvidence));
  if (!evidence_)
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                        "this sidecar has no directory in which its processes could tell anything "
                        "(--agent-dir)");
  absl::StatusOr<v1::ReadEvidenceResponse> found =
      evidence_(*request, [this, context] { return !context->IsCancelled() && !stopping_.load(); });
  if (!found.ok()) return ToGrpc(found.status());
  *response = *std::move(found);
  return grpc::Status::OK;
}

grpc::Status WorkerService::Publish(grpc::ServerContext* context, const v1::PublishRequest* request,
                                    v1::PublishResponse* response) {
  if (!IsSafeName(request->run()))
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "run is not a safe name");
  if (request->manifest().size() > kMaxManifestBytes) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                        StrCat("manifest is larger than ", kMaxManifestBytes, " bytes"));
  }
  const absl::StatusOr<storage::Logdir> logdir = storage::Logdir::Parse(request->logdir());
  if (!logdir.ok()) return ToGrpc(logdir.status());
  for (const v1::EvidenceFile& file : request->evidence_files()) {
    if (!IsSafeName(file.name()) || !IsSafeName(request->evidence_worker()))
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "a file's name is not safe");
  }
  const auto store = stores_.Open(*logdir, LimitsOf(*context));
  if (!store.ok()) return ToGrpc(store.status());
  absl::Status first;
  for (const v1::EvidenceFile& file : request->evidence_files()) {
    const absl::Status put =
        PutEvidenceFile(**store, request->run(), request->evidence_worker(), file);
    first.Update(put);
    if (put.ok()) response->set_evidence_written(response->evidence_written() + 1);
  }
  if (request->manifest().empty() && request->evidence_files_size() > 0)
    return response->evidence_written() > 0 ? grpc::Status::OK : ToGrpc(first);
  PublishReport(*context, *request, *logdir, *response);
  PublishEvidence(*context, *request, *logdir, *response);
  if (const absl::Status status = PublishManifest(**store, request->run(), request->manifest());
      !status.ok())
    return ToGrpc(status);
  response->set_url(logdir->UrlOf(storage::ManifestKey(request->run())));
  return grpc::Status::OK;
}

// Writes the report, if there is one, within a third of the time that the caller still waits: the
// manifest needs the rest.
void WorkerService::PublishReport(const grpc::ServerContext& context,
                                  const v1::PublishRequest& request, const storage::Logdir& logdir,
                                  v1::PublishResponse& response) const {
  if (request.report().empty() || request.report().size() > kMaxReportBytes) return;
  const Nanos patience = LimitsOf(context).patience / 3;
  const auto store =
      stores_.Open(logdir, {.deadline = SystemClock().MonoNow() + patience, .patience = patience});
  const absl::Status written =
      store.ok() ? strobe::service::PublishReport(**store, request.run(), request.report())
                 : store.status();
  if (written.ok())
    response.set_report_url(logdir.UrlOf(storage::ReportKey(request.run())));
  else
    LogWarning("the report could not be written",
               {{"run", request.run()}, {"error", MessageOf(written)}});
}

// Like PublishReport, for evidence.json.
void WorkerService::PublishEvidence(const grpc::ServerContext& context,
                                    const v1::PublishRequest& request,
                                    const storage::Logdir& logdir,
                                    v1::PublishResponse& response) const {
  if (request.evidence().empty() || request.evidence().size() > kMaxReportBytes) return;
  const Nanos patience = LimitsOf(context).patience / 3;
  const auto store =
      stores_.Open(logdir, {.deadline = SystemClock().MonoNow() + patience, .patience = patience});
  const absl::Status written =
      store.ok() ? strobe::service::PublishEvidence(**store, request.run(), request.evidence())
                 : store.status();
  if (written.ok())
    response.set_evidence_url(logdir.UrlOf(storage::EvidenceKey(request.run())));
  else
    LogWarning("the evidence could not be written",
               {{"run", request.run()}, {"error", MessageOf(written)}});
}

grpc::Status WorkerService::Reclaim(grpc::ServerContext* context, const v1::ReclaimRequest* request,
                                    v1::ReclaimResponse* response) {
  if (!IsSafeName(request->run()))
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "run is not a safe name");
  const auto store = storage::OpenStore(stores_, request->logdir(), LimitsOf(*context));
  if (!store.ok()) return ToGrpc(store.status());
  const absl::StatusOr<Reclaimed> done = ReclaimRun(**store, request->run(), request->capture_id());
  if (!done.ok()) return ToGrpc(done.status());
  response->set_deleted(static_cast<std::uint32_t>(done->deleted));
  response->set_left(static_cast<std::uint32_t>(done->left));
  return grpc::Status::OK;
}

}  // namespace strobe::service
