// `kubectl strobe view`: runs a viewer in the cluster and forwards a port to it.
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "cli/base/common_flags.h"
#include "cli/base/interrupts.h"
#include "cli/base/open_location.h"
#include "cli/base/progress.h"
#include "cli/kube/kube_commands.h"
#include "cli/kube/kube_session.h"
#include "cli/kube/kubectl.h"
#include "cli/kube/request_view.h"
#include "cli/kube/request_watch.h"
#include "cli/kube/viewer_job.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/http/http_get.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"

namespace strobe::cli {
namespace {

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Opens the URL in the browser of the user's desktop, without waiting for it. False if there is no
// desktop or no browser: the user then opens the URL.
bool OpenBrowser(const std::string& url) {
  // Without a desktop xdg-open would start a browser in the terminal.
  if (!IsSet("DISPLAY") && !IsSet("WAYLAND_DISPLAY")) return false;
  const std::string program = "xdg-open";
  char* const arguments[] = {const_cast<char*>(program.c_str()), const_cast<char*>(url.c_str()),
                             nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
  // In a session of its own, so that Ctrl-C ends this command and not the browser.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, program.c_str(), &files, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return failed == 0;
}

using cluster::Kubectl;
using cluster::ViewerState;

// The viewer ends when it has not been asked for a minute.
constexpr Nanos kHeartbeat = std::chrono::seconds(10);
constexpr Nanos kHeartbeatTimeout = std::chrono::seconds(3);
// How many connections in a row may fail, a second apart, before the command gives up.
constexpr int kMaxReconnects = 60;

// The viewer's Job. Its end deletes the Job.
class ViewerInCluster {
 public:
  ViewerInCluster(Kubectl& kubectl, std::string name) : kubectl_(kubectl), name_(std::move(name)) {}
  ViewerInCluster(const ViewerInCluster&) = delete;
  ViewerInCluster& operator=(const ViewerInCluster&) = delete;
  ~ViewerInCluster() {
    if (!exists_) return;
    const absl::Status deleted =
        cluster::Output(kubectl_, {"delete", "jobs.batch", name_, "--wait=false",
                                   "--ignore-not-found", "--cascade=background"})
            .status();
    if (deleted.ok()) return;
    std::cerr << "strobe: the viewer's Job " << name_ << " could not be deleted; it ends by itself "
              << "in a minute: " << MessageOf(deleted) << "\n";
  }

  absl::Status Create(const nlohmann::ordered_json& job) {
    const absl::Status created = CreateObject(kubectl_, job, {}).status();
    // Without an answer, the Job may have been created.
    exists_ = created.ok() || absl::IsUnavailable(created) || absl::IsDeadlineExceeded(created);
    return created;
  }

  absl::StatusOr<ViewerState> State() const {
    ASSIGN_OR_RETURN(
        const nlohmann::json objects,
        Read({"get", "jobs.batch,pods", StrCat("--selector=", kube::kViewerLabel, "=", name_)}));
    ViewerState state = cluster::StateOf(objects, nlohmann::json());
    if (state.phase != ViewerState::Phase::kWaits || !state.pod.empty()) return state;
    // The events say why there is no pod. A user who may not read them gets no reason.
    const absl::StatusOr<nlohmann::json> events =
        Read({"get", "events",
              StrCat("--field-selector=involvedObject.kind=Job,involvedObject.name=", name_)});
    return events.ok() ? cluster::StateOf(objects, *events) : state;
  }

 private:
  absl::StatusOr<nlohmann::json> Read(std::vector<std::string> arguments) const {
    arguments.emplace_back("--output=json");
    ASSIGN_OR_RETURN(const std::string text, cluster::Output(kubectl_, arguments));
    return cluster::ParseJson(text);
  }

  Kubectl& kubectl_;
  const std::string name_;
  bool exists_ = false;
};

absl::Status EndStatus(const ViewerState& state) {
  return absl::UnavailableError("the viewer is not running: " + state.text);
}

// Returns the name of the viewer's pod when it runs. Aborted: the user interrupted.
absl::StatusOr<std::string> AwaitPod(const ViewerInCluster& viewer, Nanos timeout,
                                     const Interrupts& interrupts, ProgressText& progress) {
  const SystemClock clock;
  const MonoTime begin = clock.MonoNow();
  while (interrupts.count() == 0) {
    ASSIGN_OR_RETURN(const ViewerState state, viewer.State());
    if (state.phase == ViewerState::Phase::kRuns) return state.pod;
    if (state.phase == ViewerState::Phase::kEnded) return EndStatus(state);
    progress.Show(StrCat("the viewer: ", state.text));
    if (clock.MonoNow() - begin > timeout) {
      return absl::DeadlineExceededError(StrCat("the viewer did not start within ",
                                                FormatDuration(timeout), ": ", state.text,
                                                "; wait longer with --timeout"));
    }
    usleep(200'000);
  }
  return absl::AbortedError("interrupted");
}

// What the user has been shown, and the port that stays the same when the connection is lost.
struct Forwarding {
  int port = 0;
  bool shown = false;
  int failures = 0;  // Connections in a row that brought no answer.
};

void Show(const KubeViewFlags& flags, const std::string& run, int port) {
  const std::string url = StrCat("http://localhost:", port, "/");
  std::cout << "Showing " << run << " at " << url << " (Ctrl-C ends and removes the viewer)"
            << std::endl;
  if (!flags.no_open) OpenBrowser(url);
}

// Forwards a port until the connection ends or the user interrupts. OK when it was interrupted.
absl::Status Forward(const KubeViewFlags& flags, const std::string& run, const std::string& pod,
                     const Interrupts& interrupts, Kubectl& kubectl, Forwarding& forwarding) {
  const SystemClock clock;
  int port = 0;
  std::optional<MonoTime> answered;
  MonoTime asked{};
  const auto beat = [&] {
    if (interrupts.count() > 0) return false;
    const MonoTime now = clock.MonoNow();
    if (port == 0 || (answered && now - asked < kHeartbeat)) return true;
    asked = now;
    if (http::GetFromLocalhost(port, "/healthz", kHeartbeatTimeout).ok()) {
      answered = now;
      forwarding.failures = 0;
      forwarding.port = port;
      if (!std::exchange(forwarding.shown, true)) Show(flags, run, port);
    }
    // A connection that is gone does not always end kubectl.
    return !answered || now - *answered < 3 * kHeartbeat;
  };
  const auto line = [&](std::string_view text) {
    if (const auto forwarded = cluster::ForwardedPort(text)) port = *forwarded;
    return true;
  };
  ASSIGN_OR_RETURN(const cluster::KubectlResult result,
                   kubectl.Follow({"port-forward", StrCat("pods/", pod), "--address=127.0.0.1",
                                   StrCat(forwarding.port == 0 ? "" : StrCat(forwarding.port), ":",
                                          cluster::kViewerPort)},
                                  line, beat));
  if (interrupts.count() > 0) return absl::OkStatus();
  const absl::Status ended = cluster::StatusOf(result);
  // Once shown, the port was this command's own and may soon be free again.
  if (!forwarding.shown && cluster::CannotListen(MessageOf(ended)))
    return absl::FailedPreconditionError(
        StrCat(MessageOf(ended), "; give another --port, or none for a free one"));
  return ended.ok() ? absl::UnavailableError("the connection to the viewer was lost") : ended;
}

// Forwards a port as long as the viewer runs.
absl::Status KeepForwarding(const KubeViewFlags& flags, const std::string& run,
                            const std::string& pod, const ViewerInCluster& viewer,
                            const Interrupts& interrupts, Kubectl& kubectl) {
  Forwarding forwarding{flags.port};
  while (true) {
    const absl::Status lost = Forward(flags, run, pod, interrupts, kubectl, forwarding);
    if (lost.ok()) return lost;
    if (!absl::IsUnavailable(lost) || ++forwarding.failures > kMaxReconnects) return lost;
    const absl::StatusOr<ViewerState> state = viewer.State();
    if (state.ok() && state->phase == ViewerState::Phase::kEnded) return EndStatus(*state);
    if (forwarding.shown && forwarding.failures == 1)
      std::cerr << "strobe: " << MessageOf(lost) << "; connecting again\n";
    PauseOneSecond(interrupts, 0);
    if (interrupts.count() > 0) return absl::OkStatus();
  }
}

absl::Status View(const KubeViewFlags& flags, Kubectl& kubectl) {
  cluster::ViewerJobOptions options{.name = "strobe-view-" + RandomLetters(6),
                                    .run = flags.what,
                                    .image = flags.image,
                                    .service_account = flags.service_account,
                                    .memory = flags.memory};
  ASSIGN_OR_RETURN(options.deadline, DurationOf("--deadline", flags.deadline));
  ASSIGN_OR_RETURN(const Nanos timeout, DurationOf("--timeout", flags.timeout));
  std::optional<objects::ProfileRequest> request;
  if (!Contains(flags.what, "/")) {
    ASSIGN_OR_RETURN(request, cluster::GetRequest(kubectl, flags.what));
    options.run = request->status.run;
    if (options.run.empty()) {
      return absl::FailedPreconditionError(StrCat(
          flags.what, " has no run: ", cluster::ResultText(*request, SystemClock().WallNow())));
    }
  }
  ASSIGN_OR_RETURN(const std::string list,
                   cluster::Output(kubectl, cluster::InjectedPodArguments()));
  ASSIGN_OR_RETURN(const nlohmann::json pods, cluster::ParseJson(list));
  const nlohmann::json pod =
      cluster::ChoosePod(pods, request ? request->target : job::TargetSpec{});
  ASSIGN_OR_RETURN(const nlohmann::ordered_json job,
                   cluster::MakeViewerJob(options, pod, request ? &*request : nullptr));
  const Interrupts interrupts(/*termination=*/1, /*hangup=*/true);
  ProgressText progress(flags.quiet);
  progress.Show(StrCat("the viewer: creating its Job ", options.name));
  ViewerInCluster viewer(kubectl, options.name);
  RETURN_IF_ERROR(viewer.Create(job));
  const absl::StatusOr<std::string> running = AwaitPod(viewer, timeout, interrupts, progress);
  progress.Clear();
  if (absl::IsAborted(running.status())) return absl::OkStatus();
  RETURN_IF_ERROR(running.status());
  return KeepForwarding(flags, options.run, *running, viewer, interrupts, kubectl);
}

}  // namespace

int RunKubeView(const KubeViewFlags& flags) {
  cluster::KubectlProcess kubectl(flags.connection.Arguments());
  const absl::Status status = View(flags, kubectl);
  return status.ok() ? kExitOk : Complain(status);
}

}  // namespace strobe::cli
