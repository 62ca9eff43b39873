// strobe-sidecar: flags, signals and exit codes.
#include <google/protobuf/stubs/logging.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "collector/store/store_options.h"
#include "common/base/ending_signals.h"
#include "common/base/flag_failure.h"
#include "common/base/help_format.h"
#include "common/base/log.h"
#include "common/base/program_start.h"
#include "common/base/strings.h"
#include "sidecar/main/flags.h"
#include "sidecar/main/sidecar_server.h"
#include "sidecar/main/start_probe.h"

namespace strobe {
namespace {

// The exit codes: 0 after an orderly end, 1 when something cannot be served, 2 when flags or the
// storage configuration are wrong.
constexpr int kCannotServe = 1, kWrongInput = 2;
constexpr Nanos kRetryServing = std::chrono::seconds(10);

// With --started-file the pod's other containers wait for this one: it must not end because of an
// error that concerns only captures. Returns when the process is to end.
int EndOrOutlive(const std::string& started_file, int code) {
  if (started_file.empty() || code == 0) return code;
  const EndingSignals ending;
  LogError("this pod cannot be captured; its other containers start anyway");
  MarkStarted(started_file);
  ending.Wait();
  return code;
}

namespace fs = std::filesystem;

absl::Status CopyFile(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const fs::path hidden = to.parent_path() / ("." + to.filename().native());
  fs::copy_file(from, hidden, fs::copy_options::overwrite_existing, error);
  // In one step, so that the trainer never loads an unfinished copy.
  if (!error) fs::rename(hidden, to, error);
  if (error) return absl::UnavailableError(StrCat(to.native(), ": ", error.message()));
  return absl::OkStatus();
}

absl::Status CopyTree(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return absl::UnavailableError(StrCat(to.native(), ": ", error.message()));
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const absl::Status copied = entry.is_directory()
                                    ? CopyTree(entry.path(), to / entry.path().filename())
                                    : CopyFile(entry.path(), to / entry.path().filename());
    if (!copied.ok()) return copied;
  }
  if (error) return absl::UnavailableError(StrCat(from.native(), ": ", error.message()));
  return absl::OkStatus();
}

// Copies <program>/../lib to <dir>/lib and, if it exists, <program>/../python to <dir>/python. Also
// creates <dir>/agent, which every user may write to. A trainer that has loaded a file
// already keeps the old one.
absl::Status InstallAgent(const std::string& dir) {
  std::error_code error;
  const fs::path home = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  // The trainer, usually another user than the sidecar, creates its ring files in there.
  fs::create_directories(fs::path(dir) / "agent", error);
  chmod((fs::path(dir) / "agent").c_str(), 01777);
  if (const absl::Status status = CopyTree(home / "lib", fs::path(dir) / "lib"); !status.ok())
    return status;
  if (!fs::exists(home / "python", error)) return absl::OkStatus();
  return CopyTree(home / "python", fs::path(dir) / "python");
}

absl::StatusOr<std::unique_ptr<SidecarServer>> StartServer(const SidecarFlags& flags,
                                                           storage::StorageConfig storage) {
  absl::StatusOr<std::unique_ptr<SidecarServer>> server =
      SidecarServer::Create(flags, std::move(storage), &EndingSignals::End);
  if (!server.ok()) return server;
  if (const absl::Status started = (*server)->Start(); !started.ok()) return started;
  return server;
}

int Serve(const SidecarFlags& flags) {
  const EndingSignals ending;  // Before any thread starts.
  if (flags.exit_with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
  absl::StatusOr<storage::StorageConfig> storage = storage::ReadStorageConfig(flags.storage_config);
  if (!storage.ok()) {
    LogError("the storage configuration is wrong", {{"error", MessageOf(storage.status())}});
    if (flags.install_dir.empty()) return kWrongInput;
    // The trainer waits for the installation below. It can do without storage; captures report the
    // error.
    storage = storage::StorageConfig{.schemes = {}, .wrong = storage.status()};
  }
  if (!flags.install_dir.empty()) {
    // The trainer can do without its annotations, so an error must not hold it up.
    if (const absl::Status installed = InstallAgent(flags.install_dir); !installed.ok())
      LogError("annotations and GPU activity are off: the agent cannot be installed",
               {{"error", MessageOf(installed)}});
  }
  absl::StatusOr<std::unique_ptr<SidecarServer>> server = StartServer(flags, *storage);
  MarkStarted(flags.started_file);
  while (!server.ok()) {
    LogError("cannot serve", {{"error", MessageOf(server.status())}});
    if (flags.started_file.empty() || ending.WaitFor(kRetryServing)) return kCannotServe;
    server = StartServer(flags, *storage);
  }
  ending.Wait();
  return (*server)->Stop() ? 0 : kCannotServe;
}

}  // namespace
}  // namespace strobe

int main(int argc, char** argv) {
  using namespace strobe;
  strobe::OccupyClosedStreams();
  strobe::IgnoreBrokenPipes();
  if (const std::optional<int> code = strobe::AnswerProbe(argc, argv)) return *code;
  // gRPC 1.51 stops listening for good when a connection finds no free file, and anybody who
  // reaches the port can open a thousand connections.
  strobe::RaiseFileLimit();
  // Protobuf logs each message that cannot be parsed, which would let strangers fill the log.
  google::protobuf::SetLogHandler(nullptr);
  // Debian builds abseil to search for lock cycles at each of gRPC's locks, which is slow.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  strobe::SidecarFlags flags;
  CLI::App app(
      "Record this worker's traces when the Strobe operator or strobe capture asks for them.",
      "strobe-sidecar");
  app.formatter(std::make_shared<strobe::HelpFormat<CLI::Formatter, CLI::App, CLI::Option>>());
  strobe::AddFlags(app, flags);
  app.failure_message(strobe::FlagFailure<CLI::App, CLI::Error>);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndOrOutlive(strobe::StartedFileOf(argc, argv), app.exit(error));
  }
  if (const absl::Status checked = strobe::CheckFlags(flags); !checked.ok()) {
    std::cerr << "strobe-sidecar: " << checked.message() << "\n";
    return EndOrOutlive(flags.started_file, kWrongInput);
  }
  strobe::LogLevel level = strobe::LogLevel::kInfo;
  strobe::ParseLogLevel(flags.log_level, level);
  strobe::InitLog(level, flags.log_json ? strobe::LogFormat::kJson : strobe::LogFormat::kText);
  return Serve(flags);
}
