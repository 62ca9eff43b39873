// The directory where programs with the agent and their sidecar meet: $STROBE_DIR/agent.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/wire/layout.h"
#include "sidecar/source/ring_files.h"

namespace strobe {

// A process that could not make its ring file.
struct FailedProgram {
  std::string container{};  // As the program says it; empty when it does not.
  std::string label{};      // "<program> <pid>".
  std::string message{};    // What failed, and what to do about it.
};

// Safe for concurrent use.
class AgentDirectory {
 public:
  // Serves every program of the directory, alone: FailedPrecondition when another sidecar does.
  // Makes the directory if need be. Switches off what a sidecar that died left switched on.
  static absl::StatusOr<std::unique_ptr<AgentDirectory>> Own(const std::string& path);
  // Serves the process `pid` and its descendants, beside whoever owns the directory. Each program
  // is recorded by one of them at a time.
  static absl::StatusOr<std::unique_ptr<AgentDirectory>> Join(const std::string& path,
                                                              std::uint32_t pid);
  ~AgentDirectory();
  AgentDirectory(const AgentDirectory&) = delete;
  AgentDirectory& operator=(const AgentDirectory&) = delete;

  const std::string& path() const { return path_; }
  // Is this program one of those that are served? `forked_from_ours`: so is the one it was forked
  // from.
  bool Concerns(const wire::RingFile& file, bool forked_from_ours) const;
  // Removes the file of a program that is gone for long and that nobody looks at: they would fill
  // the volume where no capture comes to remove them. True when it is gone.
  bool RemoveIfDead(OpenedRings& opened) const;
  // What programs that begin from now on do at once; nothing to ask for removes the orders. Only an
  // owner's are obeyed by programs of all kinds, so a guest gives none. A full volume makes them
  // fail: such programs are then recorded from when they are found.
  void Order(const wire::Orders& orders) const;
  // Those that still run, and those that failed since then (CLOCK_MONOTONIC in ns) and have ended;
  // at most 64. Only an owner knows of them.
  std::vector<FailedProgram> Failures(std::uint64_t since_ns) const;
  // Makes room for new ones in the places of those who have ended; nobody is told of them any more.
  void ForgetFailures() const;

 private:
  AgentDirectory(std::string path, int lock, std::optional<std::uint32_t> pid)
      : path_(std::move(path)), lock_(lock), pid_(pid) {}
  void CleanUp() const;
  void ReserveFailures() const;
  int OpenFailures() const;  // -1 for a guest, and when there are none.

  const std::string path_;
  const int lock_;                          // Of the directory; -1 for a guest.
  const std::optional<std::uint32_t> pid_;  // Whose family a guest serves.
};

// The words of an order that asks for nothing.
wire::Orders NoOrders();

}  // namespace strobe
