#include "sidecar/main/agent_parts.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

// What the flight recorder records: a capture's default for tracers.host.
constexpr std::uint32_t kFlightLevel = 2;
// How long the last records of a killed program are kept for captures that reach back.
constexpr Nanos kKeepEnded = std::chrono::minutes(10);

// The most space that such records may take; at most a quarter of the shared volume. The device
// records of one program take 16 MiB.
constexpr std::uint64_t kKeptBytes = 64u << 20, kKeptBytesWithDevices = 192u << 20;

std::uint64_t MostKeptBytes(const std::string& directory, bool devices) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  const std::uint64_t most = devices ? kKeptBytesWithDevices : kKeptBytes;
  return error ? most : std::min<std::uint64_t>(most, space.capacity / 4);
}

source::AgentOptions OptionsFor(AgentParts::Flight flight) {
  return {.look_back = flight.look_back,
          .idle_level = flight.look_back > Nanos{0} ? kFlightLevel : 0,
          .idle_devices = flight.devices};
}

}  // namespace

absl::StatusOr<std::unique_ptr<source::AgentDirectory>> OpenAgentDirectory(
    const SidecarFlags& flags) {
  if (flags.agent_dir.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<source::AgentDirectory>> directory =
      flags.agent_only_parent
          ? source::AgentDirectory::Join(flags.agent_dir, static_cast<std::uint32_t>(getppid()))
          : source::AgentDirectory::Own(flags.agent_dir);
  if (directory.ok() || absl::IsFailedPrecondition(directory.status())) return directory;
  LogError("annotations and GPU activity are off: the agent's directory cannot be used",
           {{"error", MessageOf(directory.status())}});
  return nullptr;
}

AgentParts::AgentParts(const Clock& clock, session::Source& framework,
                       std::unique_ptr<source::AgentDirectory> directory, Flight flight,
                       std::optional<source::KinetoDaemonOptions> kineto, bool may_stall)
    : directory_(std::move(directory)),
      agent_(clock, *directory_, OptionsFor(flight)),
      // A guest serves one process and its descendants, and leaves announcements to the owner.
      inproc_(clock, directory_->is_owner() ? directory_->path() : "", may_stall),
      kineto_daemon_(kineto ? std::make_unique<source::KinetoDaemon>(clock, *std::move(kineto))
                            : nullptr),
      kineto_(kineto_daemon_ == nullptr ? nullptr
                                        : std::make_unique<source::KinetoSource>(
                                              clock, *kineto_daemon_, directory_->path())),
      both_(framework, inproc_, agent_, kineto_.get()),
      monitor_(clock, *directory_) {
  if (flight.look_back == Nanos{0}) return;
  directory_->KeepEnded(kKeepEnded, MostKeptBytes(directory_->path(), flight.devices));
  recorder_.emplace(
      *directory_, kFlightLevel,
      flight.devices ? std::optional(source::IdleDevices(flight.ports)) : std::nullopt);
}

bool AgentParts::connected() {
  const std::vector<v1::Source> agents = agent_.Probe(Nanos{0});
  return std::any_of(agents.begin(), agents.end(),
                     [](const v1::Source& source) { return source.ready(); });
}

std::map<std::string, std::uint64_t> AgentParts::kineto_refused() const {
  return kineto_daemon_ == nullptr ? std::map<std::string, std::uint64_t>()
                                   : kineto_daemon_->refused();
}

}  // namespace strobe
