// strobe-operator: flags, subcommands, signals and exit codes.
#include <google/protobuf/stubs/logging.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "absl/synchronization/mutex.h"
#include "common/base/ending_signals.h"
#include "common/base/flag_failure.h"
#include "common/base/help_format.h"
#include "common/base/log.h"
#include "common/base/program_start.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "operator/config/config.h"
#include "operator/main/commands.h"
#include "operator/main/operator_server.h"
#include "operator/objects/viewer_link.h"

namespace strobe {
namespace {

constexpr Nanos kReleaseMemoryEvery = std::chrono::seconds(5);
constexpr int kFailed = 1, kWrongInput = 2;  // Exit codes.

struct Flags {
  std::string config, kubeconfig, http_listen, log_level;
  bool insecure_plaintext = false, no_lease = false;
  std::string crds;      // --dir of apply-crds.
  std::string released;  // --namespace of release-requests.
  bool cancel_first = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", kVersion);
  app.add_option("--config", flags.config, "settings, in YAML; see docs/reference/chart-values.md")
      ->type_name("FILE")
      ->envname("STROBE_CONFIG");
  app.add_option("--kubeconfig", flags.kubeconfig,
                 "cluster to work in [$KUBECONFIG, the pod's own, ~/.kube/config]")
      ->type_name("FILE");
  app.add_option("--http-listen", flags.http_listen,
                 "where to serve /metrics, /healthz and /readyz [[::]:8080]")
      ->type_name("ADDRESS");
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error [info]")
      ->type_name("LEVEL");
  app.add_flag("--insecure-plaintext", flags.insecure_plaintext, "talk to sidecars without TLS");
  app.add_flag("--no-leader-election", flags.no_lease,
               "do not wait to become the leader; safe only if no second operator can run");
}

CLI::App* AddApplyCrds(CLI::App& app, Flags& flags) {
  CLI::App* const command =
      app.add_subcommand("apply-crds", "Update the CRDs in the cluster to this version.");
  command->add_option("--dir", flags.crds, "folder of their YAML files [next to the program]")
      ->type_name("FOLDER");
  return command;
}

CLI::App* AddReleaseRequests(CLI::App& app, Flags& flags) {
  CLI::App* const command =
      app.add_subcommand("release-requests",
                         "Remove Strobe's finalizer from all ProfileRequests, if no operator runs "
                         "any more.");
  command->add_option("--namespace", flags.released, "only in this namespace")->type_name("NAME");
  command->add_flag("--cancel", flags.cancel_first,
                    "only cancel running captures, through the running operator");
  return command;
}

CLI::App* AddCheck(CLI::App& app) {
  return app.add_subcommand("check",
                            "Check whether the webhooks of the cluster answer, by a dry run.");
}

absl::StatusOr<config::OperatorConfig> ConfigOf(const Flags& flags) {
  config::OperatorConfig config;
  if (!flags.config.empty()) {
    ASSIGN_OR_RETURN(config, config::LoadConfig(flags.config));
  }
  if (!flags.http_listen.empty()) config.http_listen = flags.http_listen;
  if (!flags.log_level.empty()) config.log_level = flags.log_level;
  if (flags.insecure_plaintext) config.insecure_plaintext = true;
  if (flags.no_lease) config.lease.enabled = false;
  LogLevel level;
  if (!ParseLogLevel(config.log_level, level))
    return absl::InvalidArgumentError("--log-level must be debug, info, warning or error");
  RETURN_IF_ERROR(enroll::CheckAuthorityRules(RulesOf(config.tls)));
  RETURN_IF_ERROR(objects::CheckViewerUrl(config.viewer_url));
  return config;
}

absl::Status Serve(const config::OperatorConfig& config, const std::string& kubeconfig) {
  const EndingSignals ending;  // Before any thread starts.
  const SystemClock clock;
  ASSIGN_OR_RETURN(const std::unique_ptr<OperatorServer> server,
                   OperatorServer::Create(clock, config, kubeconfig, &EndingSignals::End));
  RETURN_IF_ERROR(server->Start());
  while (!ending.WaitFor(kReleaseMemoryEvery)) server->ReleaseMemory();
  return server->Stop();
}

// Leaves without destroying static objects, because the REST library's threads outlive main and use
// them.
[[noreturn]] void Exit(int code) {
  std::cout.flush();
  _exit(code);
}

[[noreturn]] void ExitWith(const absl::Status& done) {
  if (!done.ok()) std::cerr << "strobe-operator: " << done.message() << "\n";
  Exit(done.ok() ? 0 : kFailed);
}

}  // namespace
}  // namespace strobe

int main(int argc, char** argv) {
  using namespace strobe;
  strobe::IgnoreBrokenPipes();
  strobe::RaiseFileLimit();
  // Each of gRPC's many threads would keep an arena of its own, each as large as a large capture.
  mallopt(M_ARENA_MAX, 2);
  // Larger blocks, such as lists of thousands of pods, go back to the system as soon as they are
  // freed.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  // Protobuf logs each message that cannot be parsed, which would let strangers fill the log.
  google::protobuf::SetLogHandler(nullptr);
  // Debian builds abseil to search for lock cycles at each of gRPC's locks, which is slow.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  Flags flags;
  CLI::App app("Carry out ProfileRequests: synchronized profiler captures of training jobs.",
               "strobe-operator");
  app.formatter(std::make_shared<strobe::HelpFormat<CLI::Formatter, CLI::App, CLI::Option>>());
  app.footer("Example:\n  strobe-operator --config /etc/strobe/operator.yaml");
  AddFlags(app, flags);
  const CLI::App* const apply = AddApplyCrds(app, flags);
  const CLI::App* const release = AddReleaseRequests(app, flags);
  const CLI::App* const check = AddCheck(app);
  app.failure_message(strobe::FlagFailure<CLI::App, CLI::Error>);
  CLI11_PARSE(app, argc, argv);
  if (*apply || *release || *check)
    strobe::InitLog(strobe::LogLevel::kWarning, strobe::LogFormat::kText);
  if (*apply) ExitWith(strobe::ApplyCrds(flags.kubeconfig, flags.crds));
  if (*release)
    ExitWith(strobe::ReleaseRequests(flags.kubeconfig, flags.released, flags.cancel_first));
  if (*check) ExitWith(strobe::CheckInstallation(flags.kubeconfig));

  const absl::StatusOr<strobe::config::OperatorConfig> config = ConfigOf(flags);
  if (!config.ok()) {
    std::cerr << "strobe-operator: " << config.status().message() << "\n";
    return kWrongInput;
  }
  strobe::LogLevel level = strobe::LogLevel::kInfo;
  strobe::ParseLogLevel(config->log_level, level);
  strobe::InitLog(
      level, config->log_format == "json" ? strobe::LogFormat::kJson : strobe::LogFormat::kText);
  const absl::Status served = Serve(*config, flags.kubeconfig);
  if (!served.ok()) strobe::LogError("cannot run", {{"error", strobe::MessageOf(served)}});
  Exit(served.ok() ? 0 : kFailed);
}
