// Records through the profiler servers of a worker's own processes.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/session/ports.h"
#include "sidecar/source/server_age.h"

namespace strobe {

struct FrameworkOptions {
  // host:port of each profiler server; several when the worker has one process per device.
  std::vector<std::string> addresses;
  // A directory that sidecar and trainer both see under this path, for servers from before 2025-09,
  // which cannot answer with the trace. Empty: such servers are refused.
  std::string shared_dir{};
  // Ask servers from before 2026 for host annotations too, although that can crash their process.
  bool host_tracing_on_old_servers = false;
};

// Record is not to be called twice at once; Probe is safe at any time.
class FrameworkSource final : public session::Source {
 public:
  FrameworkSource(const Clock& clock, FrameworkOptions options);

  std::vector<v1::Source> Probe(Nanos timeout) override;
  Nanos lead() const override;
  session::Recording Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                            const Cancellation& terminate,
                            const std::function<void()>& collecting) override;

 private:
  struct Heard {
    ServerAge age = ServerAge::kUnknown;
    MonoTime at{};
  };

  // Asks those that are connected, and remembers what they say. Where one does not answer in time,
  // what it said lately counts.
  std::vector<ServerAge> LearnAges(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                                   Nanos timeout);

  const Clock& clock_;
  const FrameworkOptions options_;
  Mutex mutex_;
  std::map<std::string, Heard> heard_ ABSL_GUARDED_BY(mutex_);  // By address.
};

}  // namespace strobe
