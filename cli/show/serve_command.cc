#include "cli/show/serve_command.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "cli/base/common_flags.h"
#include "cli/base/open_location.h"
#include "cli/base/runs.h"
#include "cli/show/viewer_library.h"
#include "common/base/ending_signals.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/ip_text.h"
#include "common/tls/identity_files.h"
#include "operator/base/names.h"
#include "operator/kube/client.h"
#include "operator/kube/cpprest_transport.h"
#include "viewer/page_policy.h"
#include "viewer/router.h"
#include "viewer/service/access.h"
#include "viewer/service/gate.h"
#include "viewer/service/service_config.h"

namespace strobe::cli {
namespace {

using viewer::ServeConfig;

constexpr std::size_t kMaxConnections = 1024;
// For answers that wait for the API server or a store; for searches and conversions of whole
// traces, which give way to all others; and for what needs little, such as the tiles in sight.
constexpr http::WorkLimits kSlow{.threads = 12, .each = 6, .waiting = 256, .waiting_each = 64};
constexpr http::WorkLimits kHeavy{
    .threads = 8, .each = 2, .waiting = 256, .waiting_each = 64, .niceness = 10};
constexpr http::WorkLimits kBrief{.threads = 4, .each = 2, .waiting = 256, .waiting_each = 64};
// Memory of answers that are being sent; the longest tiles have 64 MiB.
constexpr fair::ByteShares::Limits kAnswers{.all = std::uint64_t{384} << 20,
                                            .each = std::uint64_t{96} << 20};
constexpr Nanos kReadFilesEvery = std::chrono::seconds(10);

// Asks whether somebody may get the ProfileRequests of a namespace, with a SubjectAccessReview.
class KubeJudge final : public viewer::AccessJudge {
 public:
  explicit KubeJudge(kube::Client& client) : client_(client) {}
  absl::StatusOr<bool> MaySee(const viewer::Asker& asker, const std::string& ns,
                              Nanos within) override {
    kube::Requester user{.username = asker.user, .groups = asker.groups};
    // The API server adds this group to everybody who has logged in.
    user.groups.emplace_back("system:authenticated");
    return kube::IsAllowed(client_, user,
                           {{"namespace", ns},
                            {"verb", "get"},
                            {"group", kube::kApiGroup},
                            {"resource", kube::kRequestsResource}},
                           within);
  }

 private:
  kube::Client& client_;
};

absl::StatusOr<std::unique_ptr<viewer::Library>> OpenLogdirs(const ServeConfig& config,
                                                             const Cancellation& ended) {
  std::vector<ServedLocation> locations;
  for (const viewer::ServedLogdir& logdir : config.logdirs)
    locations.push_back({logdir.name, logdir.url});
  return OpenServed(locations, {.storage_config = config.storage_config,
                                .cache = config.cache_directory,
                                .cancellation = &ended});
}

// The URLs of the configuration's logdirs, in its order, as the library spells them.
absl::StatusOr<std::vector<std::string>> UrlsOf(const ServeConfig& config) {
  std::vector<std::string> urls;
  for (const viewer::ServedLogdir& logdir : config.logdirs) {
    ASSIGN_OR_RETURN(const RunLocation place, ParseRunLocation(logdir.url));
    urls.push_back(place.logdir.url());
  }
  return urls;
}

catalog::Visible SeenOf(const viewer::VisibleLogdirs& visible,
                        const std::vector<std::string>& urls) {
  catalog::Visible seen;
  for (const std::size_t i : visible) seen.logdirs.insert(urls[i]);
  return seen;
}

viewer::Gate::Options GateOptions(const ServeConfig& config, const std::vector<std::string>& urls,
                                  const viewer::Router& router) {
  viewer::Gate::Options options{.identity = config.identity, .hosts = config.hosts};
  options.load_of = [&](const http::Request& request, const viewer::VisibleLogdirs* visible) {
    if (visible == nullptr) return router.LoadOf(request, nullptr);
    const catalog::Visible seen = SeenOf(*visible, urls);
    return router.LoadOf(request, &seen);
  };
  for (const viewer::ServedLogdir& logdir : config.logdirs) options.namespaces.push_back(logdir.ns);
  return options;
}

viewer::RouterOptions OptionsOf(const ServeConfig& config) {
  viewer::RouterOptions options;
  options.hosts = config.hosts;
  options.cache = {.directory = config.cache_directory, .max_bytes = config.cache_bytes};
  options.max_open = static_cast<std::size_t>(config.open_runs);
  options.many_askers = true;
  return options;
}

http::Page Healthy(const http::Request&) { return {200, "ok\n"}; }

absl::StatusOr<std::unique_ptr<http::Server>> StartServer(const ServeConfig& config,
                                                          const IdentityFiles& files,
                                                          viewer::Gate& gate) {
  http::ServerOptions options{.listen = config.listen, .max_connections = kMaxConnections};
  options.work_of = [&gate](const http::Request& request) { return gate.WorkOf(request); };
  options.slow = kSlow;
  options.heavy = kHeavy;
  options.brief = kBrief;
  options.answers = kAnswers;
  options.headers = {config.identity.user, config.identity.groups, viewer::kFetchSite};
  options.identity = files.identity();
  if (!config.tls.client_authority.empty()) {
    options.client_authorities = [&files] { return files.client_authorities(); };
    options.client_names = config.tls.client_names;
  }
  return http::Server::Start(
      options, {{"/healthz", Healthy}},
      [&gate](const http::Request& request) { return gate.Answer(request); });
}

absl::Status Serve(const ServeConfig& config, const std::string& kubeconfig,
                   const EndingSignals& ending) {
  const SystemClock clock;
  Cancellation ended;
  ASSIGN_OR_RETURN(const std::unique_ptr<viewer::Library> library, OpenLogdirs(config, ended));
  ASSIGN_OR_RETURN(const std::vector<std::string> urls, UrlsOf(config));
  ASSIGN_OR_RETURN(kube::Credentials credentials, kube::FindCredentials(kubeconfig));
  kube::InitCpprest();
  ASSIGN_OR_RETURN(std::shared_ptr<kube::Transport> transport,
                   kube::MakeCpprestTransport(clock, std::move(credentials)));
  kube::Client client(clock, std::move(transport));
  KubeJudge judge(client);
  viewer::Access access(clock, judge, {.remember = config.access_cache});
  viewer::Router router(*library, OptionsOf(config));
  viewer::Gate gate(clock, access, GateOptions(config, urls, router),
                    [&](const http::Request& request, const viewer::VisibleLogdirs& visible) {
                      return router.Answer(request, SeenOf(visible, urls));
                    });
  ASSIGN_OR_RETURN(
      const std::unique_ptr<IdentityFiles> files,
      IdentityFiles::Read({config.tls.certificate, config.tls.key, config.tls.client_authority}));
  std::unique_ptr<http::Server> health;
  if (!config.health_listen.empty()) {
    ASSIGN_OR_RETURN(health, http::Server::Start({.listen = config.health_listen, .threads = 1},
                                                 {{"/healthz", Healthy}}));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<http::Server> server, StartServer(config, *files, gate));
  const std::string host = config.listen.substr(0, config.listen.rfind(':'));
  std::cout << "Serving " << urls.size() << " logdirs at "
            << (config.tls.enabled() ? "https://" : "http://") << host << ":" << server->port()
            << "/" << std::endl;
  if (health != nullptr) std::cout << "Health: port " << health->port() << std::endl;
  while (!ending.WaitFor(kReadFilesEvery)) files->ReadAgain();
  ended.Cancel();  // Ends requests that wait for a store, and then those that wait for the API.
  client.EndWaits();
  return absl::OkStatus();
}

absl::StatusOr<ServeConfig> ConfigOf(const ServeFlags& flags) {
  ASSIGN_OR_RETURN(ServeConfig config, viewer::LoadServeConfig(flags.config));
  LogLevel level = LogLevel::kInfo;
  ParseLogLevel(config.log_level, level);  // The parser has checked it.
  InitLog(level, config.log_format == "json" ? LogFormat::kJson : LogFormat::kText);
  return config;
}

}  // namespace

void AddServeFlags(CLI::App& command, ServeFlags& flags) {
  command.add_option("--config", flags.config, "YAML file; see docs/how-to/serve.md")
      ->envname("STROBE_SERVE_CONFIG")
      ->required();
  command.add_option("--kubeconfig", flags.kubeconfig,
                     "cluster that decides who may see what [$KUBECONFIG, the pod's own, "
                     "~/.kube/config]");
  command.footer(
      "An authenticating proxy passes the user and the groups in headers. A user sees the runs of "
      "a "
      "logdir if they may get ProfileRequests in the namespace that the configuration gives to the "
      "logdir.\n"
      "Example:\n"
      "  strobe serve --config serve.yaml, with\n"
      "    logdirs: [{url: \"gs://traces/ml\", namespace: ml}]\n"
      "    hosts: [strobe.example.com]\n"
      "Exit code: 0 ended by a signal, 1 a logdir, the cluster or the address cannot be used, 2 "
      "the configuration or a flag is wrong.");
}

int RunServe(const ServeFlags& flags) {
  const EndingSignals ending;  // First, because threads inherit which signals are blocked.
  const absl::StatusOr<ServeConfig> config = ConfigOf(flags);
  const absl::Status status =
      config.ok() ? Serve(*config, flags.kubeconfig, ending) : config.status();
  const int code = status.ok() ? kExitOk : Complain(status);
  // The REST library's threads outlive main; leaving at once keeps them from what statics destroy.
  std::cout.flush();
  _exit(code);
}

}  // namespace strobe::cli
