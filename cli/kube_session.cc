#include "cli/kube_session.h"

#include <unistd.h>

#include <csignal>
#include <iostream>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

constexpr Nanos kCreateTimeout = std::chrono::minutes(2);

volatile std::sig_atomic_t g_kube_interrupts = 0;

void CountInterrupt(int signal) {
  g_kube_interrupts = g_kube_interrupts + 1;
  if (g_kube_interrupts > Interrupts::kLeave) _exit(128 + signal);
}

}  // namespace

Interrupts::Interrupts() {
  std::signal(SIGINT, CountInterrupt);
  std::signal(SIGTERM, CountInterrupt);
}

int Interrupts::count() const { return g_kube_interrupts; }

ProgressText::ProgressText(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressText::Show(const std::string& text) {
  if (quiet_ || text.empty() || text == shown_) return;
  if (terminal_)
    std::cerr << "\r\033[K" << text << std::flush;
  else
    std::cerr << text << "\n";
  shown_ = text;
}

void ProgressText::Clear() {
  if (!quiet_ && terminal_ && !shown_.empty()) std::cerr << "\r\033[K";
  shown_.clear();
}

void PauseOneSecond(const Interrupts& interrupts, int known) {
  for (int i = 0; i < 20 && interrupts.count() <= known; ++i) usleep(50'000);
}

absl::StatusOr<std::string> CreateObject(cluster::Kubectl& kubectl, const std::string& objects,
                                         const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"create", "--filename=-"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  ASSIGN_OR_RETURN(cluster::KubectlResult result, kubectl.Run(arguments, objects, kCreateTimeout));
  if (const absl::Status status = cluster::StatusOf(result); !status.ok()) return status;
  std::cerr << result.err;
  return std::move(result.out);
}

absl::StatusOr<nlohmann::ordered_json> ReadFrom(cluster::Kubectl& kubectl,
                                                const std::string& file) {
  if (file.empty()) return nlohmann::ordered_json();
  // kubectl reads YAML too.
  ASSIGN_OR_RETURN(const std::string text,
                   cluster::Output(kubectl, {"create", StrCat("--filename=", file),
                                             "--dry-run=client", "--output=json"}));
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_discarded())
    return absl::InvalidArgumentError("--from must name a file with one ProfileRequest");
  return json;
}

}  // namespace strobe
