#include "cli/view_command.h"

#include <atomic>
#include <filesystem>
#include <iostream>

#include "cli/common_flags.h"
#include "cli/logdir_library.h"
#include "common/base/duration.h"
#include "common/base/ending_signals.h"
#include "common/base/ip_text.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "viewer/viewer.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

// A file, or a folder with traces, which is shown as a single run.
class OneRun final : public viewer::Library {
 public:
  OneRun(std::string path, std::string storage_config)
      : path_(std::move(path)), storage_config_(std::move(storage_config)) {}

  absl::StatusOr<std::vector<std::string>> Runs() override {
    return std::vector<std::string>{fs::path(path_).filename().native()};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    return OpenTraces(path_, storage_config_);
  }
  std::string place() const override { return path_; }

 private:
  const std::string path_, storage_config_;
};

absl::StatusOr<std::unique_ptr<viewer::Library>> OpenLibrary(const ViewFlags& flags,
                                                             const Cancellation& ended) {
  std::error_code error;
  std::string place = flags.place;
  if (fs::is_regular_file(place, error))
    return std::make_unique<OneRun>(fs::absolute(place).lexically_normal().native(),
                                    flags.storage_config);
  if (fs::is_directory(place, error)) {
    place = fs::absolute(place).lexically_normal().native();
    while (place.size() > 1 && place.ends_with('/')) place.pop_back();
    // A run is opened through its logdir, so that the logdir's other runs can be chosen too.
    const bool run = Contains(place, StrCat("/", kRunsPrefix));
    if (!run && HasTraces(place)) return std::make_unique<OneRun>(place, flags.storage_config);
  }
  ASSIGN_OR_RETURN(OpenPlace open, OpenRunPlace(place, flags.storage_config));
  RETURN_IF_ERROR(RunsOf(open).status());  // Reported here instead of in the browser.
  // All runs that are open share one bound.
  TraceReading reading{.cancellation = &ended};
  if (open.place.logdir.scheme() != "file") {
    ASSIGN_OR_RETURN(reading.pool, FetchPool::Create({}));
  }
  return std::make_unique<LogdirRuns>(std::move(open), flags.storage_config, std::move(reading));
}

// Returns when a signal ends the program, or when the last request is older than `idle`.
void AwaitEnd(const EndingSignals& ending, std::optional<Nanos> idle,
              const std::atomic<MonoTime>& last_request) {
  if (!idle) return ending.Wait();
  while (!ending.WaitFor(std::chrono::seconds(1))) {
    if (SystemClock().MonoNow() - last_request.load() > *idle) return;
  }
}

absl::Status Serve(const ViewFlags& flags, const EndingSignals& ending) {
  std::optional<Nanos> idle;
  if (!flags.end_when_idle.empty()) {
    ASSIGN_OR_RETURN(idle, ParseDuration(flags.end_when_idle));
  }
  Cancellation ended;
  ASSIGN_OR_RETURN(const std::shared_ptr<viewer::Library> library, OpenLibrary(flags, ended));
  viewer::ViewerOptions options;
  options.hosts = flags.hosts;
  options.xprof = flags.xprof;
  options.cache.directory =
      flags.cache == "none" ? ""
                            : (flags.cache.empty() ? index::DefaultCacheDirectory() : flags.cache);
  viewer::Viewer viewer(std::move(options));
  std::atomic<MonoTime> last_request = SystemClock().MonoNow();
  const auto noted = [&](auto answer) {
    return [&last_request, answer](const Request& request) {
      last_request = SystemClock().MonoNow();
      return answer(request);
    };
  };
  absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(
      {.listen = flags.listen, .is_slow = viewer::Viewer::IsSlow},
      {{"/healthz", noted([](const Request&) {
          return Page{200, "ok\n"};
        })}},
      noted([&](const Request& request) { return viewer.Answer(request, library); }));
  if (!server.ok())
    return absl::Status(
        server.status().code(),
        ToAbsl(StrCat(MessageOf(server.status()), "; --listen 127.0.0.1:0 picks a free port")));
  const std::string host = flags.listen.substr(0, flags.listen.rfind(':'));
  if (!IsLoopback(flags.listen))
    std::cerr << "strobe: everyone who can connect to " << flags.listen
              << " can read these traces\n";
  std::cout << "Showing " << library->place() << " at http://" << host << ":" << (*server)->port()
            << "/ (Ctrl-C ends)" << std::endl;
  // Reads the first run while the user opens the browser.
  viewer.Answer({.path = "/api/run", .host = "localhost"}, library);
  AwaitEnd(ending, idle, last_request);
  ended.Cancel();  // Ends requests that wait for a store.
  return absl::OkStatus();
}

}  // namespace

void AddViewFlags(CLI::App& command, ViewFlags& flags) {
  command
      .add_option(
          "place", flags.place,
          "a .xplane.pb file, a trace in Chrome's format (.json, .json.gz; PyTorch, Chrome, "
          "TensorFlow), a run, or a logdir (all of its runs, the newest one first)")
      ->required();
  command.add_option("--listen", flags.listen, "host:port to listen on; port 0 picks a free port")
      ->capture_default_str();
  command.add_option(
      "--cache", flags.cache,
      "folder that keeps the index of each trace, so that the trace opens at once the next time; "
      "none = keep indexes in memory only [$XDG_CACHE_HOME/strobe or ~/.cache/strobe, at most 16 "
      "GiB]");
  command.add_option(
      "--allow-host", flags.hosts,
      "a host name, besides localhost, that browsers may use for this server; can be "
      "repeated");
  command
      .add_option("--xprof", flags.xprof,
                  "address of an XProf server for the same logdir, such as http://localhost:8791; "
                  "the page then links to its Graph Viewer")
      ->check([](const std::string& url) {
        const bool web = url.starts_with("http://") || url.starts_with("https://");
        return web ? "" : "must begin with http:// or https://";
      });
  command.add_option(
      "--end-when-idle", flags.end_when_idle,
      "end when nobody has asked for anything, not even for /healthz, for this long, "
      "such as 10m [never]");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "All workers of a run are shown on one timeline; their clocks are corrected by the measured "
      "offsets. In\nthe page, ? shows the keys.\n"
      "Examples:\n"
      "  strobe view /nfs/logs\n"
      "  strobe view gs://bucket/logs/plugins/profile/RUN\n"
      "  strobe view worker-0.xplane.pb --listen 127.0.0.1:0\n"
      "  strobe view rank0.pt.trace.json\n"
      "Exit code: 0 ended by Ctrl-C or idle, 1 the traces cannot be read or the address cannot be "
      "used, 2 "
      "a "
      "flag is wrong.");
}

int RunView(const ViewFlags& flags) {
  const EndingSignals ending;  // First, because threads inherit which signals are blocked.
  const absl::Status status = Serve(flags, ending);
  return status.ok() ? kExitOk : Complain(status);
}

}  // namespace strobe
