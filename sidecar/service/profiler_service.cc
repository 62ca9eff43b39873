#include "sidecar/service/profiler_service.h"

#include <algorithm>
#include <chrono>

#include "collector/store/upload.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/protocol/capture_defaults.h"
#include "common/protocol/outcome.h"
#include "common/text/safe_text.h"

namespace strobe::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A store that hangs must not hold the worker for as long as the client waits.
constexpr Nanos kMaxUpload = std::chrono::minutes(10);

// Delivers the trace to where the client wants it: into the response, or to the object `key`,
// <session_id>/<host>.xplane.pb, under the client's repository_root.
class ClientDelivery final : public session::Delivery {
 public:
  ClientDelivery(const Clock& clock, storage::StoreOpener& stores, bool emit, std::string root,
                 std::string key)
      : clock_(clock), stores_(stores), emit_(emit), root_(std::move(root)), key_(std::move(key)) {}

  absl::Status CheckSpace(const v1::CapturePlan&) override { return absl::OkStatus(); }
  // The plan asks for one trace.
  std::vector<absl::StatusOr<std::string>> Deliver(
      const v1::Report& report, std::vector<session::TracePieces> traces,
      const Cancellation& cancel, const std::function<void()>& uploading) override {
    uploading();
    return {DeliverOne(report, std::move(traces.front()), cancel)};
  }
  bool CanResume(const v1::Report&) override { return false; }
  std::vector<absl::StatusOr<std::string>> Resume(const v1::Report&, const Cancellation&) override {
    return {absl::UnimplementedError("the client disconnected")};
  }
  absl::StatusOr<std::string> DeliverOriginal(const v1::Report&, const session::Original&,
                                              const Cancellation&) override {
    return absl::UnimplementedError("stock clients accept no files other than the trace");
  }
  void OnEnd(const v1::Report&) override {}

  std::string xspace;

 private:
  absl::StatusOr<std::string> DeliverOne(const v1::Report& report, session::TracePieces pieces,
                                         const Cancellation& cancel) {
    if (emit_) {
      xspace = std::move(*pieces.front());
      for (std::size_t i = 1; i < pieces.size(); ++i) xspace.append(*pieces[i]);
      return std::string("response");
    }
    ASSIGN_OR_RETURN(
        const std::unique_ptr<storage::ObjectStore> store,
        storage::OpenStore(stores_, root_,
                           {.deadline = clock_.MonoNow() + kMaxUpload, .cancellation = &cancel}));
    const std::vector<std::string_view> views = session::ViewsOf(pieces);
    RETURN_IF_ERROR(
        storage::Upload(*store, key_, storage::MemoryBytes(views), {.sha256 = report.sha256()}));
    return StrCat(root_, "/", key_);
  }

  const Clock& clock_;
  storage::StoreOpener& stores_;
  const bool emit_;
  const std::string root_, key_;
};

// A client that sends version 0 has set no options; TensorFlow's own servers then use these.
v1::Tracers TracersOf(const tensorflow::ProfileOptions& options) {
  v1::Tracers tracers;
  const bool defaults = options.version() == 0;
  tracers.set_host(defaults ? 2 : options.host_tracer_level());
  tracers.set_device(defaults || options.device_tracer_level() > 0 ? 1 : 0);
  tracers.set_python(defaults ? 0 : options.python_tracer_level());
  return tracers;
}

grpc::Status Internal(const std::string& text) {
  return grpc::Status(grpc::StatusCode::INTERNAL, text);
}

}  // namespace

ProfilerService::ProfilerService(const Clock& clock, session::CaptureRunner& runner,
                                 storage::StoreOpener& stores)
    : clock_(clock), runner_(runner), stores_(stores) {}

grpc::Status ProfilerService::Profile(grpc::ServerContext* context,
                                      const tensorflow::ProfileRequest* request,
                                      tensorflow::ProfileResponse* response) {
  const tensorflow::ProfileOptions& options = request->opts();
  const std::string host =
      ToSafeName(!options.override_hostname().empty() ? options.override_hostname()
                 : request->host_name().empty()       ? "localhost"
                                                      : request->host_name(),
                 240);
  const std::uint64_t duration_ms = std::max<std::uint64_t>(options.duration_ms(), 1);
  if (duration_ms > static_cast<std::uint64_t>(session::kMaxCaptureDuration / milliseconds(1))) {
    return Internal("duration_ms is longer than 10 minutes");
  }
  if (!request->emit_xspace() && !IsSafeName(request->session_id(), 200)) {
    return Internal(StrCat("session_id \"", ToSafeName(request->session_id(), 64),
                           "\" cannot be a directory name"));
  }
  v1::CapturePlan plan;
  // Clients of a stock profiler cannot ask for another limit.
  plan.set_abort_memory_percent(kDefaultAbortMemoryPercent);
  plan.set_capture_id(StrCat("profiler-", ToUnixNanos(clock_.WallNow()), "-", serial_++));
  plan.set_request(StrCat("a profiler client at ", context->peer()));
  // A start that is due at once is planned a little ahead, so that the trainer gets the request in
  // time.
  const std::int64_t soonest = ToUnixNanos(clock_.WallNow() + session::kMinLead + milliseconds(10));
  // A start that is much too late is refused below; the limit keeps the deadline from overflowing.
  constexpr std::int64_t kLatest = std::int64_t{1} << 62;
  plan.set_instant_ns(
      std::clamp(static_cast<std::int64_t>(options.start_timestamp_ns()), soonest, kLatest));
  plan.set_duration_ns(Nanos(milliseconds(duration_ms)).count());
  plan.set_clock_error_ns(-1);
  *plan.mutable_tracers() = TracersOf(options);
  plan.set_run(IsSafeName(request->session_id(), 200) ? request->session_id() : plan.capture_id());
  plan.set_worker(host);
  plan.set_one_trace(true);
  plan.set_deadline_ns(plan.instant_ns() + plan.duration_ns() +
                       Nanos(std::max<Nanos>(seconds(60), milliseconds(duration_ms))).count());

  // As in stock servers, a relative root begins at the server's working directory.
  ClientDelivery delivery(clock_, stores_, request->emit_xspace(),
                          storage::AbsoluteLocation(request->repository_root()),
                          StrCat(request->session_id(), "/", host, storage::kTraceSuffix));
  const v1::ArmResponse armed = runner_.Arm(plan, &delivery);
  if (!armed.accepted()) {
    return armed.refusal() == v1::BUSY ? Internal("Another profiling session active.")
                                       : Internal(armed.message());
  }
  {
    MutexLock lock(&mutex_);
    running_.emplace(request->session_id(), plan.capture_id());
  }
  v1::Report report = armed.report();
  // Short waits, because gRPC's synchronous servers tell only those who ask that the client is
  // gone.
  while (report.state() != v1::DONE) {
    if (context->IsCancelled()) runner_.Cancel(plan.capture_id(), "the client disconnected");
    if (const auto next =
            runner_.WaitForChange(plan.capture_id(), report.state(), milliseconds(50)))
      report = *next;
  }
  {
    MutexLock lock(&mutex_);
    const auto [first, last] = running_.equal_range(request->session_id());
    const auto ours = std::find_if(
        first, last, [&](const auto& entry) { return entry.second == plan.capture_id(); });
    if (ours != last) running_.erase(ours);
  }
  const auto outcome = static_cast<Outcome>(report.outcome());
  if (outcome == Outcome::kCancelled)
    return grpc::Status(grpc::StatusCode::CANCELLED, report.message());
  if (outcome == Outcome::kBusy) return Internal("Another profiling session active.");
  // Outcomes that only judge a trace, such as its coverage, are no errors to a stock client, which
  // expects the trace.
  if (!Describe(outcome).has_trace || report.url().empty()) return Internal(report.message());
  response->set_empty_trace(report.events() == 0);
  if (request->emit_xspace()) *response->mutable_xspace() = std::move(delivery.xspace);
  return grpc::Status::OK;
}

grpc::Status ProfilerService::Terminate(grpc::ServerContext*,
                                        const tensorflow::TerminateRequest* request,
                                        tensorflow::TerminateResponse*) {
  MutexLock lock(&mutex_);
  const auto [first, last] = running_.equal_range(request->session_id());
  for (auto it = first; it != last; ++it) runner_.Terminate(it->second);
  return grpc::Status::OK;
}

grpc::Status ProfilerService::Monitor(grpc::ServerContext*, const tensorflow::MonitorRequest*,
                                      tensorflow::MonitorResponse*) {
  return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unimplemented.");
}

}  // namespace strobe::service
