#include "sidecar/source/framework_source.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/base/thread_annotations.h"
#include "collector/base/mutex.h"
#include "collector/base/strings.h"
#include "collector/storage/file_store.h"
#include "collector/xplane/edit.h"
#include "sidecar/source/memory_room.h"
#include "sidecar/source/profile_call.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace strobe {
namespace {

using session::Recording;
using tensorflow::ProfilerService;
namespace fs = std::filesystem;

// A fresh connection each time: an idle sidecar then holds none and retries none, and a trainer
// that came back is found at once instead of after a back-off.
std::shared_ptr<grpc::Channel> Connect(const std::string& address, int most_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(most_bytes);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// How large an answer of each of a worker's processes may be. What is larger is refused before it
// is read.
struct AnswerLimit {
  int bytes = std::numeric_limits<int>::max();
  std::string words = "gRPC carries no more than 2 GiB";
};

AnswerLimit LimitOf(const v1::CapturePlan& plan, std::size_t processes) {
  constexpr std::uint64_t kAround = 64 << 10;  // An answer is a little more than its trace.
  AnswerLimit limit;
  const auto lower = [&limit](std::uint64_t bytes, std::uint64_t trace, std::string_view cause) {
    if (bytes < static_cast<std::uint64_t>(limit.bytes))
      limit = {static_cast<int>(bytes), StrCat("allowed are ", trace, cause)};
  };
  if (plan.max_bytes() > 0)
    lower(plan.max_bytes() + kAround, plan.max_bytes(), " (maxBytesPerWorker)");
  // As it comes from the network, and as text.
  const std::uint64_t room = MemoryRoom(2 * processes);
  lower(room, room, ", what is left of the sidecar's memory limit");
  return limit;
}

// The Profile calls of one capture, one per process, all in flight at once.
class Calls {
 public:
  struct Call {
    std::string address;
    std::string session_id;
    std::unique_ptr<ProfilerService::Stub> stub;
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    tensorflow::ProfileResponse response;
    grpc::Status status;
  };

  Calls(const v1::CapturePlan& plan, const FrameworkOptions& options, int most_bytes,
        Nanos time_left) {
    for (std::size_t i = 0; i < options.addresses.size(); ++i) {
      auto call = std::make_unique<Call>();
      call->address = options.addresses[i];
      call->session_id = SessionId(plan, i);
      call->stub = ProfilerService::NewStub(Connect(call->address, most_bytes));
      call->context.set_deadline(DeadlineIn(time_left));
      call->request = MakeProfileRequest(plan, i, options.shared_dir);
      calls_.push_back(std::move(call));
    }
    {
      MutexLock lock(&mutex_);
      pending_ = calls_.size();
    }
    for (const auto& call : calls_) {
      call->stub->async()->Profile(&call->context, &call->request, &call->response,
                                   [this, raw = call.get()](grpc::Status status) {
                                     MutexLock lock(&mutex_);
                                     raw->status = std::move(status);
                                     --pending_;
                                   });
    }
  }
  // Callbacks refer to this object, so it waits for them; cancelling makes that short.
  ~Calls() {
    TryCancel();
    MutexLock lock(&mutex_);
    mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Ended(); });
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  bool WaitFor(Nanos duration) {
    MutexLock lock(&mutex_);
    return mutex_.AwaitFor(duration,
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Ended(); });
  }
  void TryCancel() {
    for (const auto& call : calls_) call->context.TryCancel();
  }
  // Ends the sessions early; the Profile calls then answer with what was recorded.
  void Terminate() {
    for (const auto& call : calls_) {
      grpc::ClientContext context;
      context.set_deadline(DeadlineIn(std::chrono::seconds(1)));
      tensorflow::TerminateRequest request;
      request.set_session_id(call->session_id);
      tensorflow::TerminateResponse response;
      call->stub->Terminate(&context, request, &response);
    }
  }
  // Only after all calls have ended.
  std::vector<std::unique_ptr<Call>>& calls() { return calls_; }

 private:
  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return pending_ == 0; }

  std::vector<std::unique_ptr<Call>> calls_;
  Mutex mutex_;
  std::size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The trace that an older server wrote into the shared directory, whatever file name it chose.
absl::StatusOr<std::string> TakeSharedTrace(const std::string& shared_dir,
                                            const std::string& session_id) {
  if (shared_dir.empty()) {
    return absl::FailedPreconditionError(
        "cannot answer with its trace (servers since 2025-09 can); upgrade the framework, or mount "
        "a directory in both containers and pass --shared-dir");
  }
  const fs::path directory = fs::path(shared_dir) / session_id;
  FileStore store(directory.native());
  const absl::StatusOr<std::vector<StoredObject>> files = ListAll(store, "");
  absl::StatusOr<std::string> trace = absl::NotFoundError(
      StrCat("neither answered with its trace nor wrote one below ", directory.native(),
             "; mount the shared directory under the same path in both containers"));
  if (files.ok()) {
    for (const StoredObject& file : *files) {
      if (file.key.ends_with(".xplane.pb") && file.bytes > 0)
        trace = GetText(store, file.key, file.bytes);
    }
  }
  std::error_code ignored;
  fs::remove_all(directory, ignored);
  return trace;
}

}  // namespace

FrameworkSource::FrameworkSource(const Clock& clock, FrameworkOptions options)
    : clock_(clock), options_(std::move(options)) {}

std::vector<v1::Source> FrameworkSource::Probe(Nanos timeout) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string& address : options_.addresses) {
    channels.push_back(Connect(address, std::numeric_limits<int>::max()));
    channels.back()->GetState(true);
  }
  const auto deadline = DeadlineIn(timeout);
  std::vector<v1::Source> sources;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    v1::Source& source = sources.emplace_back();
    source.set_kind(v1::SOURCE_FRAMEWORK);
    source.set_address(options_.addresses[i]);
    grpc_connectivity_state state = channels[i]->GetState(false);
    // Refused is an answer too: do not sit out the deadline for it.
    while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
           channels[i]->WaitForStateChange(state, deadline)) {
      state = channels[i]->GetState(false);
    }
    source.set_ready(state == GRPC_CHANNEL_READY);
    if (!source.ready()) {
      source.set_detail(state == GRPC_CHANNEL_TRANSIENT_FAILURE ? "nobody listens"
                                                                : "does not answer");
    }
  }
  return sources;
}

// The server must have the request before the start also when the machine is crowded, and cannot be
// cancelled once it has it; a quarter of a second is enough for the one and bearable for the other.
Nanos FrameworkSource::lead() const { return std::chrono::milliseconds(250); }

Recording FrameworkSource::Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                  const Cancellation& terminate,
                                  const std::function<void()>& collecting) {
  const auto until = [this](std::int64_t unix_nanos) {
    return std::max(FromUnixNanos(unix_nanos) - clock_.WallNow(), Nanos{0});
  };
  const AnswerLimit limit = LimitOf(plan, options_.addresses.size());
  Calls calls(plan, options_, limit.bytes, until(plan.deadline_ns()));
  constexpr Nanos kSlice = std::chrono::milliseconds(20);
  const std::int64_t stop = plan.instant_ns() + plan.duration_ns() + plan.guard_ns();
  bool stopped = false, terminated = false;
  while (!calls.WaitFor(stopped ? kSlice : std::min(kSlice, until(stop) + Nanos{1}))) {
    if (cancel.cancelled()) calls.TryCancel();
    if (terminate.cancelled() && !terminated) {
      calls.Terminate();
      terminated = true;
    }
    if (!stopped && until(stop) == Nanos{0}) {
      stopped = true;
      collecting();
    }
  }
  if (!stopped) collecting();

  Recording recording{.outcome = Outcome::kOk};
  const bool several = options_.addresses.size() > 1;
  for (const auto& call : calls.calls()) {
    CallVerdict verdict{Outcome::kOk, ""};
    absl::StatusOr<std::string> trace = std::string();
    if (!call->status.ok()) {
      verdict =
          JudgeCallFailure(call->status.error_code(), call->status.error_message(), call->address);
      if (verdict.outcome == Outcome::kTruncated) verdict.message += StrCat("; ", limit.words);
    } else if (call->response.has_xspace()) {
      trace = std::move(*call->response.mutable_xspace());
      call->response.Clear();
    } else {
      trace = TakeSharedTrace(options_.shared_dir, call->session_id);
      if (!trace.ok()) {
        verdict = {Outcome::kVersionMismatch,
                   StrCat("profiler server at ", call->address, " ", trace.status().message())};
      }
    }
    if (verdict.outcome == Outcome::kOk && !several) {
      recording.xspace = *std::move(trace);
    } else if (verdict.outcome == Outcome::kOk) {
      const absl::Status joined = xplane::AppendXSpace(*trace, call->address, recording.xspace);
      if (!joined.ok())
        verdict = {Outcome::kProfilerStartFailed, StrCat("profiler server at ", call->address,
                                                         " sent no trace: ", joined.message())};
    }
    if (Describe(verdict.outcome).badness > Describe(recording.outcome).badness) {
      recording.outcome = verdict.outcome;
      recording.message = verdict.message;
    }
  }
  return recording;
}

}  // namespace strobe
