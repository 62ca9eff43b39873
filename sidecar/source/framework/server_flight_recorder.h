// Keeps TPUs recorded through profiler servers while no capture runs, so that a capture can reach
// back in time: by the servers' continuous profiling, as XProf's snapshot mode uses it. A process
// has one profiler session, so nobody else can record it meanwhile. Sessions of others are never
// ended, and no snapshot is taken of them.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe::source {

class ServerFlightRecorder {
 public:
  // `servers` names the addresses of the servers to keep recording. It is called every `look`, by a
  // thread of this object, and sessions that do not run are begun then. `state_file` tells the next
  // process, after a crash of this one, which sessions are ours; without one it takes them for
  // those of another client.
  ServerFlightRecorder(std::function<std::vector<std::string>()> servers, std::string state_file,
                       Nanos look = std::chrono::seconds(5));
  // Ends the sessions that this object began.
  ~ServerFlightRecorder();
  ServerFlightRecorder(const ServerFlightRecorder&) = delete;
  ServerFlightRecorder& operator=(const ServerFlightRecorder&) = delete;

  // Why the server does not record for us, human-readable; empty if it does.
  std::string WhyNot(const std::string& address) const;

  // No session is begun while such an object lives. It is created for a capture, waits at most two
  // seconds for a session that is being begun, and sessions go on unless the capture ends them.
  class Pause {
   public:
    explicit Pause(ServerFlightRecorder& recorder);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    ServerFlightRecorder& recorder_;
  };
  // Ends our sessions and takes at most some seconds. Requires a Pause.
  void EndSessions();
  // The server has ended our session by itself.
  void OnEnded(const std::string& address);

 private:
  void Run();
  // Sees to it that the server records.
  void Attend(const std::string& address);
  void End(const std::string& address);
  // Notes, and logs, why the server does not record for us; empty = it does.
  void Set(const std::string& address, const std::string& why_not);
  // Writes the state file.
  void Keep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<std::vector<std::string>()> servers_;
  const std::string state_file_;
  const Nanos look_;
  std::set<std::string> earlier_;  // The sessions in the state file. Guarded by: the thread only.
  mutable Mutex mutex_;
  std::map<std::string, std::string> why_not_ ABSL_GUARDED_BY(mutex_);  // By address.
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool attending_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;  // Attend at once.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strobe::source
