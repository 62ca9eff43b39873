#include "cli/capture/server_saves.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <utility>

#include "capture/attempt_result.h"
#include "capture/start_plan.h"
#include "cli/base/common_flags.h"
#include "cli/base/interrupts.h"
#include "cli/base/open_location.h"
#include "cli/base/progress.h"
#include "cli/base/runs.h"
#include "collector/store/logdir.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "sidecar/source/base/profile_call.h"
#include "sidecar/source/base/profile_calls.h"
#include "sidecar/source/base/server_risks.h"
#include "tensorflow/profiler_analysis.grpc.pb.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace strobe::cli {
namespace {

using std::chrono::seconds;

// The first Ctrl-C ends the recording and keeps it; the second one, or SIGTERM, cancels it.
constexpr int kCancelCalls = 2;
// How often calls that run look for interrupts.
constexpr Nanos kLookInterval = std::chrono::milliseconds(20);

struct Saved {
  Outcome outcome = Outcome::kUnknown;
  std::string message{};
};

// What the attempts have in common.
struct SaveSession {
  const CaptureFlags& flags;
  const capture::Spec& spec;
  const std::vector<capture::Target>& targets;
  const Clock& clock;
  const Interrupts& interrupts;
};

std::string RepositoryRoot(const capture::Spec& spec) {
  const absl::StatusOr<storage::Logdir> logdir = storage::Logdir::Parse(spec.logdir);
  // Servers expect a plain path for a local directory.
  const std::string root = logdir->scheme() == "file" ? logdir->path() : logdir->url();
  return StrCat(root, "/", storage::kRunsPrefix.substr(0, storage::kRunsPrefix.size() - 1));
}

tensorflow::ProfileRequest RequestFor(const capture::Spec& spec, const capture::Target& target,
                                      WallTime start, int attempt) {
  v1::CapturePlan plan;
  plan.set_instant_ns(ToUnixNanos(start));
  plan.set_duration_ns(spec.duration.count());
  *plan.mutable_tracers() = spec.tracers;
  plan.set_worker(target.file);
  plan.set_capture_id(capture::CaptureId(spec, attempt));
  tensorflow::ProfileRequest request = source::MakeProfileRequest(plan, 0, RepositoryRoot(spec));
  request.set_session_id(storage::RunOfAttempt(spec.run, attempt));
  request.mutable_opts()->set_session_id(request.session_id());
  request.set_emit_xspace(false);
  return request;
}

Saved Judge(const grpc::Status& status, bool empty, const capture::Target& target) {
  if (!status.ok()) {
    const source::CallVerdict verdict =
        source::JudgeCallFailure(status.error_code(), status.error_message(), target.address);
    return {verdict.outcome, verdict.message};
  }
  if (empty) return {Outcome::kNoHostEvents, "the server answered with an empty trace"};
  return {Outcome::kOk, ""};
}

// How long a call may take that records at `start`.
Nanos TimeLeft(const SaveSession& session, WallTime start) {
  const capture::Spec& spec = session.spec;
  return start - session.clock.WallNow() + spec.duration +
         spec.collect_timeout.value_or(capture::CollectBudget(spec.duration));
}

// The connections to the servers, and how old each server is. Asking that takes time, so that it is
// done before the start is chosen.
struct Servers {
  source::ServerRisks risks{};
  std::vector<std::shared_ptr<grpc::Channel>> channels{};
  std::vector<source::ServerAge> ages{};
};

Servers Connect(const SaveSession& session) {
  const source::ServerRisks& risks = session.flags.risks;
  Servers servers{.risks = risks};
  for (const capture::Target& target : session.targets)
    servers.channels.push_back(
        grpc::CreateChannel(target.address, grpc::InsecureChannelCredentials()));
  if (session.spec.tracers.host() == 0 || risks.host_tracing_on_old_servers)
    servers.ages.resize(session.targets.size(), source::ServerAge::kSince2026);
  else
    servers.ages = source::AskAges(servers.channels, DeadlineIn(seconds(2)));
  return servers;
}

bool IsOldServer(const Servers& servers, std::size_t index) {
  return servers.ages[index] != source::ServerAge::kSince2026;
}

// Waits until all calls have ended, and carries out the user's interrupts.
void AwaitCalls(source::ProfileCalls& calls, const Interrupts& interrupts) {
  bool terminated = false;
  while (!calls.WaitFor(kLookInterval)) {
    if (interrupts.count() >= kCancelCalls)
      calls.TryCancel();
    else if (interrupts.count() > 0 && !std::exchange(terminated, true))
      calls.Terminate();
  }
}

Saved JudgeCall(const SaveSession& session, const Servers& servers,
                source::ProfileCalls::Call& call, std::size_t index) {
  tensorflow::ProfileResponse response;
  grpc::Status status = call.status;
  if (status.ok())
    status = grpc::SerializationTraits<tensorflow::ProfileResponse>::Deserialize(&call.response,
                                                                                 &response);
  const capture::Target& target = session.targets[index];
  const std::string server = StrCat("profiler server at ", target.address);
  if (status.ok() && IsOldServer(servers, index))
    return {Outcome::kVersionMismatch,
            StrCat(server, ": ", source::WhyNoHostTracing(servers.ages[index]))};
  Saved saved = Judge(status, response.empty_trace(), target);
  const bool spared =
      session.spec.tracers.device() > 0 && call.request.opts().device_tracer_level() == 0;
  if (spared && saved.message.empty()) saved.message = source::SparedNote(server);
  return saved;
}

std::vector<Saved> ProfileAll(const SaveSession& session, const Servers& servers, WallTime start,
                              int attempt) {
  std::vector<tensorflow::ProfileRequest> requests;
  for (std::size_t i = 0; i < session.targets.size(); ++i) {
    const capture::Target& target = session.targets[i];
    tensorflow::ProfileRequest request = RequestFor(session.spec, target, start, attempt);
    tensorflow::ProfileOptions& options = *request.mutable_opts();
    if (IsOldServer(servers, i)) options.set_host_tracer_level(0);
    if (options.device_tracer_level() > 0 && source::SparesGpus(servers.risks, target.address))
      options.set_device_tracer_level(0);
    requests.push_back(std::move(request));
  }
  source::ProfileCalls calls(servers.channels, std::move(requests), TimeLeft(session, start));
  AwaitCalls(calls, session.interrupts);
  std::vector<Saved> saved;
  for (std::size_t i = 0; i < session.targets.size(); ++i)
    saved.push_back(JudgeCall(session, servers, *calls.calls()[i], i));
  return saved;
}

// A master cannot be asked to end a session early, so that any interrupt cancels it.
std::vector<Saved> ProfileThroughMaster(const SaveSession& session, WallTime start, int attempt) {
  const capture::Target& master = session.targets.front();
  const auto stub = tensorflow::ProfileAnalysis::NewStub(
      grpc::CreateChannel(master.address, grpc::InsecureChannelCredentials()));
  tensorflow::NewProfileSessionRequest request;
  *request.mutable_request() = RequestFor(session.spec, master, start, attempt);
  request.set_repository_root(RepositoryRoot(session.spec));
  request.set_session_id(storage::RunOfAttempt(session.spec.run, attempt));
  for (const std::string& host : Split(session.flags.worker_list, ',')) request.add_hosts(host);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(TimeLeft(session, start)));
  tensorflow::NewProfileSessionResponse response;
  grpc::Status status;
  Notification ended;
  stub->async()->NewSession(&context, &request, &response, [&](grpc::Status answer) {
    status = std::move(answer);
    ended.Notify();
  });
  while (!ended.WaitFor(kLookInterval)) {
    if (session.interrupts.count() > 0) context.TryCancel();
  }
  if (status.ok() && !response.error_message().empty())
    return {{Outcome::kProfilerStartFailed, response.error_message()}};
  return {Judge(status, response.empty_trace(), master)};
}

capture::AttemptResult SaveOnce(const SaveSession& session, int attempt) {
  const capture::Spec& spec = session.spec;
  const bool through_master = !session.flags.worker_list.empty();
  const Servers servers = through_master ? Servers{} : Connect(session);
  const WallTime start = session.clock.WallNow() + std::max<Nanos>(spec.delay.value_or(Nanos{0}),
                                                                   std::chrono::milliseconds(300));
  const std::vector<Saved> saved = through_master ? ProfileThroughMaster(session, start, attempt)
                                                  : ProfileAll(session, servers, start, attempt);
  capture::AttemptResult result{.attempt = attempt,
                                .capture_id = capture::CaptureId(spec, attempt),
                                .run = storage::RunOfAttempt(spec.run, attempt),
                                .plan = capture::StartPlan{.instant = start}};
  for (std::size_t i = 0; i < saved.size(); ++i) {
    capture::WorkerResult worker{.target = session.targets[i]};
    worker.outcome = saved[i].outcome;
    worker.message = saved[i].message;
    if (worker.outcome == Outcome::kOk) ++result.ok;
    result.cancelled = result.cancelled || worker.outcome == Outcome::kCancelled;
    result.workers.push_back(std::move(worker));
  }
  result.succeeded = result.ok >= std::min(spec.min_workers, saved.size());
  result.message = result.succeeded
                       ? StrCat(result.ok, "/", saved.size(), " workers Ok")
                       : StrCat("no trace event was collected from ", saved.size() - result.ok,
                                " of ", saved.size(), " workers");
  return result;
}

bool IsCurable(const capture::AttemptResult& result) {
  return std::any_of(
      result.workers.begin(), result.workers.end(),
      [](const capture::WorkerResult& worker) { return Describe(worker.outcome).retryable; });
}

std::string SavedTable(const capture::Spec& spec, const capture::AttemptResult& result) {
  std::string text;
  for (const capture::WorkerResult& worker : result.workers)
    text += StrCat(worker.target.name, "   ", Name(worker.outcome), "   ",
                   WithoutControls(worker.message), "\n");
  return StrCat(text, "each server saved its own trace below ", RepositoryRoot(spec), "/",
                result.run, "\nskew: not measured (the traces did not pass through here)\n");
}

}  // namespace

int RunServerSaves(const CaptureFlags& flags, const capture::Spec& spec,
                   const std::vector<capture::Target>& targets, const Clock& clock) {
  const Interrupts interrupts(kCancelCalls);
  const SaveSession session{
      .flags = flags, .spec = spec, .targets = targets, .clock = clock, .interrupts = interrupts};
  capture::AttemptResult result;
  for (int attempt = 1;; ++attempt) {
    result = SaveOnce(session, attempt);
    const bool done = result.succeeded || attempt >= spec.attempts || !IsCurable(result);
    if (done || interrupts.count() > 0) break;
    const std::string reached = StrCat(result.ok, " of ", result.workers.size(), " workers Ok");
    if (!flags.quiet)
      std::cerr << (flags.progress == "json"
                        ? RetryEvent(attempt, reached)
                        : StrCat("attempt ", attempt, ": ", reached, "; again"))
                << "\n";
    PauseOneSecond(interrupts, 0);
    if (interrupts.count() > 0) break;
  }
  if (flags.output == "json") {
    const absl::StatusOr<std::string> json =
        capture::ManifestJson(capture::ComposeManifest(spec, result));
    if (!json.ok()) return Complain(json.status());
    std::cout << *json;
  } else {
    std::cout << SavedTable(spec, result);
  }
  if (result.succeeded) return kExitOk;
  std::cerr << (result.cancelled ? "Cancelled: " : "Unavailable: ") << result.message << "\n";
  return kExitFailed;
}

}  // namespace strobe::cli
