// The daemon of Kineto's on-demand protocol: the socket that processes with PyTorch ask for orders,
// and the thread that answers them. A process must be answered within 90 ms or not at all, so this
// thread does nothing else.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "sidecar/source/kineto/kineto_clients.h"
#include "sidecar/source/kineto/kineto_socket.h"

namespace strobe::source {

struct KinetoDaemonOptions {
  // Where traces are written; see kineto_directory.h. Processes have the same path.
  std::string directory{};
  // The sockets are in that directory too. Otherwise they have abstract names, which all pods with
  // the host's network would share.
  bool socket_files = false;
  // The longest recording; see MakeKinetoOrder.
  Nanos max_duration = std::chrono::seconds(2);
};

// Safe for concurrent use.
class KinetoDaemon {
 public:
  // Begins to serve, and goes on trying if another daemon has the socket. `clock` must outlive it.
  KinetoDaemon(const Clock& clock, KinetoDaemonOptions options);
  ~KinetoDaemon();
  KinetoDaemon(const KinetoDaemon&) = delete;
  KinetoDaemon& operator=(const KinetoDaemon&) = delete;

  const KinetoDaemonOptions& options() const { return options_; }
  // Why no process can ask at present; empty if they can.
  std::string problem() const;
  std::vector<KinetoClient> clients() const;
  // See KinetoClients.
  bool Assign(const std::string& client, const KinetoOrder& order);
  std::optional<KinetoDelivery> DeliveryOf(const std::string& client) const;
  void End(const std::string& client, bool done);
  // The number of datagrams that were not used, by reason: "garbage", "forged", "full", "late".
  std::map<std::string, std::uint64_t> refused() const;

 private:
  void Run();
  void Serve();
  void Open();
  void Answer(const KinetoDatagram& datagram);
  void Refuse(const char* reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Send(const std::string& client, const std::string& bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Look();
  void LookForEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tidy() const;
  Nanos Pause() const;

  const Clock& clock_;
  const KinetoDaemonOptions options_;
  const KinetoSocketDir sockets_;
  const FileDescriptor wake_;
  Cancellation stopping_;

  // Only for the thread that answers.
  FileDescriptor socket_;
  MonoTime opened_{}, looked_{};

  mutable Mutex mutex_;
  std::string problem_ ABSL_GUARDED_BY(mutex_);
  KinetoClients clients_ ABSL_GUARDED_BY(mutex_);
  // One socket per client that was told something, so that each shows what its client has not read.
  std::map<std::string, FileDescriptor> answers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> refused_ ABSL_GUARDED_BY(mutex_);
  std::thread answers_thread_, tidy_thread_;  // Declared last: they use the members above.
};

}  // namespace strobe::source
