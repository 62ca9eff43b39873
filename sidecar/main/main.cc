// strobe-sidecar: flags, signals and exit codes.
#include <google/protobuf/stubs/logging.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "collector/storage/store_options.h"
#include "common/base/ending_signals.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "sidecar/main/flags.h"
#include "sidecar/main/install.h"
#include "sidecar/main/sidecar_server.h"

namespace strobe {
namespace {

constexpr int kCannotServe = 1, kWrongInput = 2;  // Exit codes.

absl::StatusOr<std::unique_ptr<SidecarServer>> StartServer(const SidecarFlags& flags,
                                                           StorageConfig storage) {
  absl::StatusOr<std::unique_ptr<SidecarServer>> server =
      SidecarServer::Create(flags, std::move(storage), &EndingSignals::End);
  if (!server.ok()) return server;
  if (const absl::Status started = (*server)->Start(); !started.ok()) return started;
  return server;
}

int Serve(const SidecarFlags& flags) {
  const EndingSignals ending;  // Before any thread starts.
  if (flags.exit_with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
  absl::StatusOr<StorageConfig> storage = ReadStorageConfig(flags.storage_config);
  if (!storage.ok()) {
    LogError("the storage configuration is wrong", {{"error", MessageOf(storage.status())}});
    if (flags.install_dir.empty()) return kWrongInput;
    // The trainer waits for the installation below. It can do without storage; captures report the
    // error.
    storage = StorageConfig{.schemes = {}, .wrong = storage.status()};
  }
  if (!flags.install_dir.empty()) {
    // The trainer can do without its annotations: no reason to hold it up.
    if (const absl::Status installed = InstallAgent(flags.install_dir); !installed.ok())
      LogError("annotations and GPU activity are off: the agent cannot be installed",
               {{"error", MessageOf(installed)}});
  }
  const absl::StatusOr<std::unique_ptr<SidecarServer>> server =
      StartServer(flags, *std::move(storage));
  if (!server.ok()) {
    LogError("cannot serve", {{"error", MessageOf(server.status())}});
    return kCannotServe;
  }
  ending.Wait();
  return (*server)->Stop() ? 0 : kCannotServe;
}

}  // namespace
}  // namespace strobe

int main(int argc, char** argv) {
  strobe::IgnoreBrokenPipes();
  // Protobuf logs each message that cannot be parsed, which would let strangers fill the log.
  google::protobuf::SetLogHandler(nullptr);
  // Debian builds abseil to search for lock cycles at each of gRPC's locks, which is slow.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  strobe::SidecarFlags flags;
  CLI::App app(
      "Records this worker's traces when the Strobe operator (or `strobe capture`) says so.\n"
      "Example: strobe-sidecar --framework localhost:9999 --insecure-plaintext",
      "strobe-sidecar");
  strobe::AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  if (const absl::Status checked = strobe::CheckFlags(flags); !checked.ok()) {
    std::cerr << "strobe-sidecar: " << checked.message() << "\n";
    return strobe::kWrongInput;
  }
  strobe::LogLevel level = strobe::LogLevel::kInfo;
  strobe::ParseLogLevel(flags.log_level, level);
  strobe::InitLog(level, flags.log_json ? strobe::LogFormat::kJson : strobe::LogFormat::kText);
  return strobe::Serve(flags);
}
