// strobe-operator: flags, configuration and wiring.
#include <google/protobuf/stubs/logging.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <fstream>
#include <iostream>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "common/base/duration.h"
#include "common/base/ending_signals.h"
#include "common/base/executor.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/http/http_server.h"
#include "operator/config/config.h"
#include "operator/controller/request_reconciler.h"
#include "operator/controller/work_queue.h"
#include "operator/enroll/authority.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/kube/kube_gatekeeper.h"
#include "operator/kube/leader_elector.h"
#include "operator/kube/reflector.h"
#include "operator/kube/request_cluster.h"
#include "operator/main/front_door.h"
#include "operator/main/tasks.h"
#include "operator/metrics/operator_metrics.h"
#include "operator/objects/request_json.h"
#include "operator/workers/grpc_worker.h"

namespace strobe {
namespace {

constexpr Nanos kFarewell = std::chrono::seconds(3);
// For workers to hear that their captures are over: as long as an attempt waits for them.
constexpr Nanos kRetirement = std::chrono::seconds(8);
constexpr Nanos kQuestionLimit = std::chrono::seconds(3);
constexpr Nanos kTrimEvery = std::chrono::seconds(5);

struct Flags {
  std::string config, kubeconfig, http_listen, log_level;
  bool insecure_plaintext = false, no_lease = false;
};

std::string Identity() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  unsigned char random[8] = {};
  std::ifstream("/dev/urandom", std::ios::binary)
      .read(reinterpret_cast<char*>(random), sizeof random);
  std::string text = StrCat(host.data(), "_");
  for (const unsigned char byte : random) text += absl::StrFormat("%02x", byte);
  return text;
}

// Reconciles keys on its own threads until it is destroyed.
class Workers {
 public:
  Workers(const Clock& clock, int count, WorkQueue& queue, RequestReconciler& reconciler,
          OperatorMetrics& metrics)
      : queue_(queue) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([&] {
        RunThread("reconcile", [&] {
          while (const std::optional<std::string> key = queue.Get())
            Reconcile(clock, *key, queue, reconciler, metrics);
        });
      });
    }
  }
  ~Workers() {
    queue_.ShutDown();
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

 private:
  static void Reconcile(const Clock& clock, const std::string& key, WorkQueue& queue,
                        RequestReconciler& reconciler, OperatorMetrics& metrics) {
    struct Done {
      ~Done() { queue.Done(key); }
      WorkQueue& queue;
      const std::string& key;
    } const done{queue, key};
    const MonoTime began = clock.MonoNow();
    const absl::StatusOr<ReconcileResult> result =
        RunGuarded("reconcile", [&] { return reconciler.Reconcile(key); });
    const Nanos took = clock.MonoNow() - began;
    if (!result.ok()) {
      // A conflict only means that the object moved on; the watch brings it.
      if (!absl::IsAborted(result.status()))
        LogWarning("reconcile failed", {{"request", key}, {"error", Words(result.status())}});
      metrics.Reconciled("error", took);
      queue.AddRateLimited(key);
      return;
    }
    metrics.Reconciled(result->requeue_after ? "requeue_after" : "success", took);
    queue.Forget(key);
    if (result->requeue_after) queue.AddAfter(key, *result->requeue_after);
  }

  WorkQueue& queue_;
  std::vector<std::thread> threads_;
};

// Whether our own namespace is being deleted, and we with it.
bool IsEnding(kube::Client& client, const std::string& space) {
  const absl::StatusOr<kube::Json> found =
      client.Get(StrCat("/api/v1/namespaces/", space), kQuestionLimit);
  if (!found.ok() && !absl::IsNotFound(found.status()))
    LogError(
        "whether this namespace is being deleted is not known; if it is, strobe-operator "
        "release-requests lets go of the requests that wait for an operator",
        {{"error", Words(found.status())}});
  return found.ok() && found->value("metadata", kube::Json::object()).contains("deletionTimestamp");
}

void Release(kube::Client& client, const std::string& space) {
  const absl::StatusOr<int> released = ReleaseRequests(client, space);
  if (released.ok())
    LogInfo("let go of the requests: the operator's namespace is being deleted",
            {{"requests", StrCat(*released)}});
  else
    LogError(
        "requests still wait for an operator when they are deleted; "
        "strobe-operator release-requests lets go of them",
        {{"error", Words(released.status())}});
}

// Wakes whoever waits for all of several things when one of them has come.
class StartSignal {
 public:
  void Tell() { MutexLock lock(&mutex_); }  // Leaving the mutex does it.
  template <typename Condition>
  void Await(const Condition& condition) {
    MutexLock lock(&mutex_);
    mutex_.Await(condition);
  }

 private:
  Mutex mutex_;
};

// The first reason, from whatever thread, why this process must end.
class Failure {
 public:
  void Set(absl::Status status) {
    MutexLock lock(&mutex_);
    status_.Update(status);
  }
  absl::Status Get() {
    MutexLock lock(&mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Serve(const OperatorConfig& config, const std::string& kubeconfig) {
  const EndingSignals ending;
  const SystemClock clock;
  ASSIGN_OR_RETURN(const kube::Credentials credentials, kube::FindCredentials(kubeconfig));
  const std::string identity = Identity();
  const kube::LeaseOptions lease{
      config.lease.space.empty() ? credentials.space : config.lease.space,
      config.lease.name,
      identity,
      config.lease.duration,
      config.lease.renew_deadline,
      config.lease.retry_period};
  RETURN_IF_ERROR(kube::CheckLeaseOptions(lease));
  kube::InitCpprest();
  OperatorMetrics metrics;
  ASSIGN_OR_RETURN(std::shared_ptr<kube::Transport> transport,
                   kube::MakeCpprestTransport(clock, credentials));
  kube::Client client(clock, transport,
                      [&metrics](const std::string& method, int status, Nanos took) {
                        metrics.Requested(method, status, took);
                      });
  // Its own transport: a lease renewal must not queue behind anything else.
  ASSIGN_OR_RETURN(std::shared_ptr<kube::Transport> lease_transport,
                   kube::MakeCpprestTransport(clock, credentials));
  kube::Client lease_client(clock, lease_transport);

  kube::EventRecorder events(clock, client, identity);
  kube::ObjectCache requests;
  WorkQueue queue(clock, &metrics);
  std::atomic<bool> leading{false};  // Elected and the cache is filled.
  StartSignal start;
  kube::Reflector reflector(clock, client,
                            {kube::RequestsPath(config.watch_namespace), config.watch_timeout,
                             [&start] { start.Tell(); }},
                            requests, [&](const std::string& key) {
                              if (leading) queue.Add(key);
                            });
  kube::RequestCluster cluster(client, requests, events);
  kube::CaptureHistory history(clock, client, {lease.space, config.state_config_map});
  Failure failure;
  std::optional<FrontDoor> door;
  std::atomic<const FrontDoor*> sealer{nullptr};  // Set once it is there.
  kube::KubeGatekeeper gatekeeper(clock, client, requests, history,
                                  {!config.allow_without_policy,
                                   [&sealer] {
                                     const FrontDoor* const there = sealer;
                                     return there == nullptr ? std::vector<std::string>()
                                                             : there->SealKeys();
                                   },
                                   config.webhook.configuration});
  // Before the gatekeeper that its threads ask.
  const absl::Cleanup close_door = [&door] { door.reset(); };
  std::atomic<bool> elected{!config.lease.enabled};
  if (!config.insecure_plaintext || !config.webhook.listen.empty()) {
    ObserveFailedHandshakes([&metrics] { metrics.PeerRefused("enrollment", "handshake"); });
    door.emplace(
        FrontDoor::Dependencies{clock, config, lease.space, client, gatekeeper, metrics,
                                [&elected] { return elected.load(); }},
        [&start] { start.Tell(); },
        [&failure](absl::Status status) {
          failure.Set(std::move(status));
          EndingSignals::End();
        });
    sealer = &*door;
  }
  // Before the connector, whose last calls still post to it while it ends.
  ThreadExecutor executor;
  GrpcWorkerConnector connector(clock, [&]() {
    return config.insecure_plaintext ? PlaintextCredentials() : door->WorkerCredentials();
  });
  RequestReconciler reconciler({clock, executor, connector, cluster, metrics,
                                [&queue](const std::string& key) { queue.Add(key); },
                                // Without webhooks nobody knows who asked.
                                config.webhook.listen.empty() ? nullptr : &gatekeeper});

  kube::Stop stopping;
  const auto ready = [&]() -> Page {
    if (stopping.is_set()) return {503, "ending\n"};
    if (!reflector.synced()) return {503, "the cache is not filled yet\n"};
    if (door && !door->open()) return {503, "there are no certificates yet\n"};
    return {200, "ok\n"};
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> http,
                   HttpServer::Start({.listen = config.http_listen},
                                     {{"/healthz",
                                       [](const Request&) {
                                         return Page{200, "ok\n"};
                                       }},
                                      {"/readyz", [&](const Request&) { return ready(); }},
                                      {"/metrics", [&](const Request&) {
                                         metrics.QueueLoad(queue.load(), config.workers);
                                         return MetricsPage(metrics.Render());
                                       }}}));
  reflector.Start();

  std::unique_ptr<Workers> workers;
  std::thread starter([&] {
    RunThread("start", [&] {
      // A cache that is not filled would make every capture look deleted.
      const auto may_begin = [&] {
        return elected && reflector.synced() && (!door || door->open());
      };
      start.Await([&] { return stopping.is_set() || may_begin(); });
      if (stopping.is_set()) return;
      leading = true;
      history.Reload();
      metrics.Leading(true, lease.name);
      for (const std::string& key : requests.Keys()) queue.Add(key);
      workers = std::make_unique<Workers>(clock, config.workers, queue, reconciler, metrics);
    });
  });
  // When the lease is lost nothing of ours may act any more: there is nothing to put in order
  // first.
  kube::LeaderElector elector(
      clock, lease_client, lease,
      [&] {
        elected = true;
        start.Tell();
      },
      [] { _exit(1); });
  metrics.Leading(false, lease.name);
  if (config.lease.enabled) elector.Start();
  LogInfo("strobe-operator runs", {{"version", kVersion},
                                   {"server", credentials.server},
                                   {"http_port", StrCat(http->port())},
                                   {"identity", identity}});

  // What a large capture took goes back to the system once it is over.
  std::size_t were_active = 0;
  while (!ending.WaitFor(kTrimEvery)) {
    const std::size_t active = reconciler.active();
    if (active < were_active) malloc_trim(0);
    were_active = active;
  }
  LogInfo("ending", {{"active_captures", StrCat(reconciler.active())}});
  stopping.Notify();
  start.Tell();
  // No operator will come after us to let go of what waits for one.
  const bool last = IsEnding(client, lease.space);
  if (last) {
    reconciler.Retire("Strobe is being removed");
    const MonoTime patience = clock.MonoNow() + kRetirement;
    while (reconciler.active() > 0 && clock.MonoNow() < patience)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    queue.ShutDown();
    Release(client, config.watch_namespace);
  }
  client.EndWaits();
  lease_client.EndWaits();
  if (door && failure.Get().ok() && !config.webhook.listen.empty()) {
    // The API server goes on asking us until it has heard that we are not ready any more.
    door->Drain();
    std::this_thread::sleep_for(kFarewell);
  }
  starter.join();
  workers.reset();
  if (last) Release(client, config.watch_namespace);
  // Captures go on at the workers; the successor finds them again.
  if (config.lease.enabled) elector.Release();
  return failure.Get();
}

absl::StatusOr<OperatorConfig> ConfigOf(const Flags& flags) {
  OperatorConfig config;
  if (!flags.config.empty()) {
    ASSIGN_OR_RETURN(config, LoadConfig(flags.config));
  }
  if (!flags.http_listen.empty()) config.http_listen = flags.http_listen;
  if (!flags.log_level.empty()) config.log_level = flags.log_level;
  if (flags.insecure_plaintext) config.insecure_plaintext = true;
  if (flags.no_lease) config.lease.enabled = false;
  LogLevel level;
  if (!ParseLogLevel(config.log_level, level))
    return absl::InvalidArgumentError("--log-level must be debug, info, warning or error");
  RETURN_IF_ERROR(CheckAuthorityRules(RulesOf(config.tls)));
  return config;
}

}  // namespace
}  // namespace strobe

int main(int argc, char** argv) {
  strobe::IgnoreBrokenPipes();
  // Of gRPC's many threads each would keep an arena of its own, and a large capture all of them.
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 1 << 20);  // Lists of thousands of pods go back at once.
  // It writes a line for each message that cannot be parsed, where strangers could fill the log.
  google::protobuf::SetLogHandler(nullptr);
  // Debian builds abseil to search for lock cycles at each of gRPC's locks.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  strobe::Flags flags;
  CLI::App app(
      "Carries out ProfileRequests: synchronized profiler captures of training jobs.\n"
      "Example: strobe-operator --config /etc/strobe/operator.yaml",
      "strobe-operator");
  app.set_version_flag("--version", strobe::kVersion);
  app.add_option("--config", flags.config,
                 "YAML file; see docs/reference/operator-configuration.md")
      ->envname("STROBE_CONFIG");
  app.add_option("--kubeconfig", flags.kubeconfig,
                 "cluster to work in [$KUBECONFIG, the pod's own, ~/.kube/config]");
  app.add_option("--http-listen", flags.http_listen,
                 "host:port of /metrics, /healthz, /readyz [0.0.0.0:8080]");
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error [info]");
  app.add_flag("--insecure-plaintext", flags.insecure_plaintext, "talk to sidecars without TLS");
  app.add_flag("--no-leader-election", flags.no_lease,
               "act at once; only when no second operator can run");
  std::string crds;
  CLI::App* const apply = app.add_subcommand(
      "apply-crds", "bring the CRDs in the cluster up to this version's, and end");
  apply->add_option("--dir", crds, "directory of their YAML files [beside the program]");
  std::string released;
  CLI::App* const release = app.add_subcommand(
      "release-requests",
      "take our finalizer off all ProfileRequests, when there is no operator any more, and end");
  release->add_option("--namespace", released, "of this namespace alone");
  bool cancel_first = false;
  release->add_flag("--cancel", cancel_first,
                    "only cancel captures that are under way, through the operator that is there");
  CLI::App* const check = app.add_subcommand(
      "check", "see whether the webhooks of the cluster answer (a dry run), and end");
  CLI11_PARSE(app, argc, argv);
  if (*apply || *check || *release) {
    strobe::InitLog(strobe::LogLevel::kWarning, strobe::LogFormat::kText);
    const absl::Status done =
        *apply   ? strobe::ApplyCrds(flags.kubeconfig, crds)
        : *check ? strobe::CheckInstallation(flags.kubeconfig)
                 : strobe::ReleaseRequests(flags.kubeconfig, released, cancel_first);
    if (!done.ok()) std::cerr << "strobe-operator: " << done.message() << "\n";
    std::cout.flush();
    _exit(done.ok() ? 0 : 1);
  }
  const absl::StatusOr<strobe::OperatorConfig> config = strobe::ConfigOf(flags);
  if (!config.ok()) {
    std::cerr << "strobe-operator: " << config.status().message() << "\n";
    return 2;
  }
  strobe::LogLevel level = strobe::LogLevel::kInfo;
  strobe::ParseLogLevel(config->log_level, level);
  strobe::InitLog(
      level, config->log_format == "json" ? strobe::LogFormat::kJson : strobe::LogFormat::kText);
  if (const absl::Status status = strobe::Serve(*config, flags.kubeconfig); !status.ok()) {
    strobe::LogError("cannot run", {{"error", std::string(status.message())}});
    _exit(1);
  }
  // The REST library's threads outlive main; leaving at once keeps them from what statics destroy.
  _exit(0);
}
