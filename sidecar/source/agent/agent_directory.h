// The directory $STROBE_DIR/agent, where programs with the agent and their sidecar exchange files.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/wire/layout.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/source/agent/ring_files.h"

namespace strobe::source {

// A process that could not create its ring file.
struct FailedProgram {
  std::string container{};  // The container as the program reports it; empty if it does not.
  std::string label{};      // "<program> <pid>".
  std::string message{};    // What failed and what to do about it.
};

// Safe for concurrent use.
class AgentDirectory {
 public:
  // Becomes the owner, which serves every program of the directory. Creates the directory if needed
  // and switches off what a dead sidecar left on. FailedPrecondition if another sidecar owns it.
  static absl::StatusOr<std::unique_ptr<AgentDirectory>> Own(const std::string& path);
  // Becomes a guest, which serves the process `pid` and its descendants, beside the owner of the
  // directory. A program is recorded by one sidecar at a time.
  static absl::StatusOr<std::unique_ptr<AgentDirectory>> Join(const std::string& path,
                                                              std::uint32_t pid);
  ~AgentDirectory();
  AgentDirectory(const AgentDirectory&) = delete;
  AgentDirectory& operator=(const AgentDirectory&) = delete;

  const std::string& path() const { return path_; }
  bool is_owner() const { return !pid_; }
  // True if this sidecar serves the program. `forked_from_ours` tells that it serves the program
  // from which this one was forked.
  bool Concerns(const wire::RingFile& file, bool forked_from_ours) const;
  // From now on, the files of programs that did not end by their own exit, such as those that the
  // kernel killed for their memory, stay for this long. Only the last eight files stay, and at most
  // `most_bytes` of them, because programs that fail again and again would fill the volume, which
  // is the job's memory.
  void KeepEnded(Nanos time, std::uint64_t most_bytes);
  bool keeps_ended() const { return keep_ended_.count() > 0; }
  // Removes the file of a program that ended long ago and that no child uses, because such files
  // would fill the volume while no capture removes them. True if it was removed.
  bool RemoveIfDead(OpenedRings& opened) const;
  // Writes the orders for programs that start from now on; orders that request nothing remove the
  // file. Only the owner writes orders, because programs of all sidecars follow them. On a full
  // volume the write fails and such programs are recorded only from when they are found.
  void Order(const wire::Orders& orders) const;
  // Returns programs that failed and still run, or failed after `since_ns` (CLOCK_MONOTONIC) and
  // have ended; at most 64. Empty for a guest.
  std::vector<FailedProgram> Failures(std::uint64_t since_ns) const;
  // Frees the records of programs that have ended.
  void ForgetFailures() const;

 private:
  AgentDirectory(std::string path, int lock, std::optional<std::uint32_t> pid)
      : path_(std::move(path)), lock_(lock), pid_(pid) {}
  void CleanUp() const;
  void RemoveFinishedTraces() const;
  void ReserveFailures() const;
  bool Keeps(const OpenedRings& opened) const;
  void ForgetEnded(const std::string& newest) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(ended_mutex_);
  int OpenFailures() const;  // Returns -1 for a guest or if there is no file.

  const std::string path_;
  const int lock_;                          // The lock on the directory; -1 for a guest.
  const std::optional<std::uint32_t> pid_;  // The process whose family a guest serves.
  Nanos keep_ended_{0};  // This and the next are set before other threads use the directory.
  std::uint64_t most_ended_bytes_ = 0;
  struct KeptFile {
    std::uint64_t since = 0;  // When it was first seen without its program, CLOCK_MONOTONIC.
    std::uint64_t bytes = 0;
  };
  mutable Mutex ended_mutex_;
  mutable std::map<std::string, KeptFile> kept_ ABSL_GUARDED_BY(ended_mutex_);  // By path.
};

// Orders that request nothing.
wire::Orders NoOrders();

}  // namespace strobe::source
