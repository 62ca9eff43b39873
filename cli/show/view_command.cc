#include "cli/show/view_command.h"

#include <atomic>
#include <iostream>

#include "cli/base/common_flags.h"
#include "cli/base/interrupts.h"
#include "cli/base/open_location.h"
#include "cli/show/viewer_library.h"
#include "common/base/duration.h"
#include "common/base/guard.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/ip_text.h"
#include "viewer/page_policy.h"
#include "viewer/router.h"

namespace strobe::cli {
namespace {

constexpr int kViewSlowThreads = 4;

// The run that is shown first. It is read while the user opens the browser.
class FirstRun {
 public:
  // `alone`: there is nothing to show if it cannot be read.
  FirstRun(viewer::Router& router, bool alone) : router_(router), alone_(alone) {}

  // Begins to read it, and waits a little. An error if it is alone and turns out to be no trace.
  absl::Status Read() {
    constexpr int kFailed = 400, kBusy = 503;
    if (settled_) return absl::OkStatus();
    const http::Page page = router_.Answer({.path = "/api/run", .host = "localhost"});
    settled_ = !alone_ || (page.status < kFailed && !page.body.starts_with("{\"loading\":true"));
    if (!alone_ || page.status < kFailed || page.status == kBusy) return absl::OkStatus();
    return absl::DataLossError(ToAbsl(page.body.substr(0, page.body.find('\n'))));
  }

 private:
  viewer::Router& router_;
  const bool alone_;
  bool settled_ = false;
};

// Returns when a signal ends the program, when the last request is older than `idle`, or when there
// is nothing to show.
absl::Status AwaitEnd(const Cancellation& stop, std::optional<Nanos> idle,
                      const std::atomic<MonoTime>& last_request, FirstRun* first) {
  while (!stop.WaitFor(std::chrono::seconds(1))) {
    if (first != nullptr) RETURN_IF_ERROR(first->Read());
    if (idle && SystemClock().MonoNow() - last_request.load() > *idle) break;
  }
  return absl::OkStatus();
}

// True if there is nothing to choose from.
bool OnlyRun(viewer::Library& library) {
  if (library.always_lists()) return false;
  const absl::StatusOr<std::vector<std::string>> runs =
      RunGuarded("view", [&] { return library.Runs(catalog::kAllVisible, 2); });
  return runs.ok() && runs->size() == 1;
}

absl::Status Serve(const ViewFlags& flags, const Cancellation& stop) {
  std::optional<Nanos> idle;
  if (!flags.end_when_idle.empty()) {
    ASSIGN_OR_RETURN(idle, DurationOf("--end-when-idle", flags.end_when_idle));
  }
  Cancellation ended;
  const CancellationLink stops(stop, ended);
  viewer::RouterOptions options;
  options.hosts = flags.hosts;
  options.xprof = flags.xprof;
  options.perfetto = flags.perfetto;
  options.cache.directory =
      flags.cache == "none" ? ""
                            : (flags.cache.empty() ? index::DefaultCacheDirectory() : flags.cache);
  ASSIGN_OR_RETURN(const std::unique_ptr<viewer::Library> library,
                   OpenLibrary(flags.locations, {.storage_config = flags.storage_config,
                                                 .cache = options.cache.directory,
                                                 .cancellation = &ended}));
  viewer::Router router(*library, std::move(options));
  std::atomic<MonoTime> last_request = SystemClock().MonoNow();
  const auto noted = [&](auto answer) {
    return [&last_request, answer](const http::Request& request) {
      last_request = SystemClock().MonoNow();
      return answer(request);
    };
  };
  absl::StatusOr<std::unique_ptr<http::Server>> server = http::Server::Start(
      {.listen = flags.listen,
       .work_of =
           [&](const http::Request& request) {
             return http::Work{router.LoadOf(request, &catalog::kAllVisible), request.source};
           },
       .slow = {.threads = kViewSlowThreads},
       .headers = {viewer::kFetchSite}},
      {{"/healthz", noted([](const http::Request&) {
          return http::Page{200, "ok\n"};
        })}},
      noted([&](const http::Request& request) { return router.Answer(request); }));
  if (!server.ok())
    return absl::Status(
        server.status().code(),
        ToAbsl(StrCat(MessageOf(server.status()), "; --listen 127.0.0.1:0 picks a free port")));
  // A file, or a folder with files: no run of a logdir.
  const bool alone = !library->has_catalog();
  FirstRun first(router, alone);
  constexpr int kTries = 5;  // Half a second, so that most of what is no trace is told at once.
  for (int i = 0; alone && i < kTries; ++i) RETURN_IF_ERROR(first.Read());
  const std::string host = flags.listen.substr(0, flags.listen.rfind(':'));
  if (!IsLoopback(flags.listen))
    std::cerr << "strobe: everyone who can connect to " << flags.listen
              << " can read these traces\n";
  std::cout << "Showing " << library->location() << " at http://" << host << ":"
            << (*server)->port() << "/ (Ctrl-C ends)" << std::endl;
  // Unless a run is chosen there first.
  const bool one = library->names_a_run() || OnlyRun(*library);
  if (one) RETURN_IF_ERROR(first.Read());
  const absl::Status end = AwaitEnd(stop, idle, last_request, alone ? &first : nullptr);
  ended.Cancel();  // Ends requests that wait for a store.
  return end;
}

std::string IsWebAddress(const std::string& url) {
  const bool web = url.starts_with("http://") || url.starts_with("https://");
  return web ? "" : "must begin with http:// or https://";
}

}  // namespace

void AddViewFlags(CLI::App& command, ViewFlags& flags) {
  command
      .add_option(
          "place", flags.locations,
          "a run, a .xplane.pb file, a trace in Chrome's format (.json, .json.gz), or logdirs, "
          "whose runs the page lists and searches")
      ->required();
  command.add_option("--listen", flags.listen, "where to listen; port 0 picks a free one")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command
      .add_option("--cache", flags.cache,
                  "folder that keeps indexes, so that a trace opens at once the next time; none = "
                  "in memory "
                  "only [$XDG_CACHE_HOME/strobe or ~/.cache/strobe, at most 16 GiB]")
      ->type_name("FOLDER");
  command
      .add_option("--allow-host", flags.hosts,
                  "another host name than localhost that browsers may use for this server")
      ->type_name("NAME")
      ->allow_extra_args(false);  // The next word may be the place.
  command
      .add_option("--xprof", flags.xprof,
                  "XProf server of the same logdir, such as http://localhost:8791, for links to "
                  "its Graph Viewer")
      ->type_name("URL")
      ->check(IsWebAddress);
  command
      .add_option("--perfetto", flags.perfetto,
                  "Perfetto's page; on request, the browser passes a run's traces to it and "
                  "uploads nothing")
      ->type_name("URL")
      ->capture_default_str()
      ->check(IsWebAddress);
  command
      .add_option("--end-when-idle", flags.end_when_idle,
                  "end after this long without any request, even for /healthz, such as 10m [never]")
      ->type_name("DURATION");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "All workers of a run are put on one clock, by the measured offsets. In the page, ? shows "
      "the "
      "keys.\n"
      "Examples:\n"
      "  strobe view /nfs/logs\n"
      "  strobe view gs://bucket/logs s3://other/logs\n"
      "  strobe view worker-0.xplane.pb --listen 127.0.0.1:0\n"
      "  strobe view rank0.pt.trace.json\n"
      "Exit code: 0 ended by Ctrl-C or idle, 1 the traces cannot be read or the address cannot be "
      "used, 2 a flag is wrong.");
}

int RunView(const ViewFlags& flags) {
  const StopAtSignal signals;
  const absl::Status status = Serve(flags, signals.stop());
  // What ended because of the signal is no failure.
  return status.ok() || signals.stop().cancelled() ? kExitOk : Complain(status);
}

}  // namespace strobe::cli
