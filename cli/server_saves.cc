#include "cli/server_saves.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "cli/common_flags.h"
#include "cli/runs.h"
#include "collector/logdir/logdir.h"
#include "common/base/duration.h"
#include "common/base/guard.h"
#include "common/base/parallel.h"
#include "common/base/strings.h"
#include "operator/core/start_plan.h"
#include "sidecar/source/profile_call.h"
#include "sidecar/source/server_age.h"
#include "sidecar/source/server_risks.h"
#include "tensorflow/profiler_analysis.grpc.pb.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace strobe {
namespace {

using std::chrono::seconds;

struct Saved {
  Outcome outcome = Outcome::kUnknown;
  std::string message{};
};

std::string RepositoryRoot(const CaptureSpec& spec) {
  const absl::StatusOr<Logdir> logdir = Logdir::Parse(spec.logdir);
  // Servers expect a plain path for a local directory.
  const std::string root = logdir->scheme() == "file" ? logdir->path() : logdir->url();
  return StrCat(root, "/", kRunsPrefix.substr(0, kRunsPrefix.size() - 1));
}

tensorflow::ProfileRequest RequestFor(const CaptureSpec& spec, const Target& target, WallTime start,
                                      int attempt) {
  v1::CapturePlan plan;
  plan.set_instant_ns(ToUnixNanos(start));
  plan.set_duration_ns(spec.duration.count());
  *plan.mutable_tracers() = spec.tracers;
  plan.set_worker(target.file);
  plan.set_capture_id(CaptureId(spec, attempt));
  tensorflow::ProfileRequest request = MakeProfileRequest(plan, 0, RepositoryRoot(spec));
  request.set_session_id(RunOfAttempt(spec.run, attempt));
  request.mutable_opts()->set_session_id(request.session_id());
  request.set_emit_xspace(false);
  return request;
}

Saved Judge(const grpc::Status& status, bool empty, const Target& target) {
  if (!status.ok()) {
    const CallVerdict verdict =
        JudgeCallFailure(status.error_code(), status.error_message(), target.address);
    return {verdict.outcome, verdict.message};
  }
  if (empty) return {Outcome::kNoHostEvents, "the server answered with an empty trace"};
  return {Outcome::kOk, ""};
}

std::chrono::system_clock::time_point DeadlineOf(const CaptureSpec& spec, WallTime start) {
  return std::chrono::time_point_cast<std::chrono::system_clock::duration>(
      start + spec.duration + CollectBudget(spec.duration));
}

// The connections to the servers, and how old each server is. Asking that takes time, so that it is
// done before the start is chosen.
struct Servers {
  ServerRisks risks{};
  std::vector<std::shared_ptr<grpc::Channel>> channels{};
  std::vector<ServerAge> ages{};
};

Servers Connect(const CaptureSpec& spec, const std::vector<Target>& targets,
                const ServerRisks& risks) {
  Servers servers{.risks = risks};
  for (const Target& target : targets)
    servers.channels.push_back(
        grpc::CreateChannel(target.address, grpc::InsecureChannelCredentials()));
  if (spec.tracers.host() == 0 || risks.host_tracing_on_old_servers)
    servers.ages.resize(targets.size(), ServerAge::kSince2026);
  else
    servers.ages = AskAges(servers.channels, DeadlineIn(seconds(2)));
  return servers;
}

Saved ProfileOne(const CaptureSpec& spec, const Target& target, const Servers& servers,
                 WallTime start, int attempt, std::size_t index) {
  const auto stub = tensorflow::ProfilerService::NewStub(servers.channels[index]);
  grpc::ClientContext context;
  context.set_deadline(DeadlineOf(spec, start));
  tensorflow::ProfileRequest request = RequestFor(spec, target, start, attempt);
  const bool old = servers.ages[index] != ServerAge::kSince2026;
  if (old) request.mutable_opts()->set_host_tracer_level(0);
  const bool spares_gpus =
      request.opts().device_tracer_level() > 0 && SparesGpus(servers.risks, target.address);
  if (spares_gpus) request.mutable_opts()->set_device_tracer_level(0);
  tensorflow::ProfileResponse response;
  const grpc::Status status = stub->Profile(&context, request, &response);
  if (status.ok() && old)
    return {Outcome::kVersionMismatch, StrCat("profiler server at ", target.address, ": ",
                                              WhyNoHostTracing(servers.ages[index]))};
  Saved saved = Judge(status, response.empty_trace(), target);
  if (spares_gpus && saved.message.empty())
    saved.message = SparedNote(StrCat("profiler server at ", target.address));
  return saved;
}

std::vector<Saved> ProfileAll(const CaptureSpec& spec, const std::vector<Target>& targets,
                              const Servers& servers, WallTime start, int attempt) {
  std::vector<Saved> saved(targets.size());
  ParallelFor(targets.size(), targets.size(), [&](std::size_t i) {
    saved[i] = {Outcome::kProfilerStartFailed, "strobe failed; please report it"};
    (void)RunGuarded("profile",
                     [&] { saved[i] = ProfileOne(spec, targets[i], servers, start, attempt, i); });
  });
  return saved;
}

std::vector<Saved> ProfileThroughMaster(const CaptureSpec& spec, const Target& master,
                                        const std::string& worker_list, WallTime start,
                                        int attempt) {
  const auto stub = tensorflow::ProfileAnalysis::NewStub(
      grpc::CreateChannel(master.address, grpc::InsecureChannelCredentials()));
  tensorflow::NewProfileSessionRequest request;
  *request.mutable_request() = RequestFor(spec, master, start, attempt);
  request.set_repository_root(RepositoryRoot(spec));
  request.set_session_id(RunOfAttempt(spec.run, attempt));
  for (const std::string& host : Split(worker_list, ',')) request.add_hosts(host);
  grpc::ClientContext context;
  context.set_deadline(DeadlineOf(spec, start));
  tensorflow::NewProfileSessionResponse response;
  const grpc::Status status = stub->NewSession(&context, request, &response);
  if (status.ok() && !response.error_message().empty()) {
    return {{Outcome::kProfilerStartFailed, response.error_message()}};
  }
  return {Judge(status, response.empty_trace(), master)};
}

}  // namespace

int RunServerSaves(const CaptureSpec& spec, const std::vector<Target>& targets,
                   const std::string& worker_list, const ServerRisks& risks, const Clock& clock) {
  std::vector<Saved> saved;
  std::size_t ok = 0, wanted = 0;
  int attempt = 1;
  for (;; ++attempt) {
    const Servers servers = worker_list.empty() ? Connect(spec, targets, risks) : Servers{};
    const WallTime start = clock.WallNow() + std::max<Nanos>(spec.delay.value_or(Nanos{0}),
                                                             std::chrono::milliseconds(300));
    saved = worker_list.empty()
                ? ProfileAll(spec, targets, servers, start, attempt)
                : ProfileThroughMaster(spec, targets.front(), worker_list, start, attempt);
    ok = static_cast<std::size_t>(std::count_if(
        saved.begin(), saved.end(), [](const Saved& s) { return s.outcome == Outcome::kOk; }));
    wanted = std::min(spec.min_workers, saved.size());
    const bool curable = std::any_of(saved.begin(), saved.end(),
                                     [](const Saved& s) { return Describe(s.outcome).retryable; });
    if (ok >= wanted || attempt >= spec.attempts || !curable) break;
    std::cerr << "attempt " << attempt << ": " << ok << " of " << saved.size()
              << " workers Ok; again\n";
    std::this_thread::sleep_for(seconds(1));
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    std::cout << targets[i].name << "   " << Name(saved[i].outcome) << "   " << saved[i].message
              << "\n";
  }
  std::cout << "each server saved its own trace below " << RepositoryRoot(spec) << "/"
            << RunOfAttempt(spec.run, attempt)
            << "\nskew: not measured (the traces did not pass through here)\n";
  if (ok >= wanted) return kExitOk;
  std::cerr << "Unavailable: no trace event was collected from " << saved.size() - ok << " of "
            << saved.size() << " workers\n";
  return kExitFailed;
}

}  // namespace strobe
