// The traces that wait in the spool for another attempt, and the thread that makes the attempts.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::spool {

struct KeptTrace {
  std::string id;         // The trace's id; see SpooledTrace.
  v1::Report report;      // The report of that trace alone.
  MonoTime next{};        // When the next attempt is made.
  Nanos wait{};           // The time between this attempt and the one after it.
  MonoTime until{};       // Monotonic, so that setting the wall clock discards no trace.
  bool unwanted = false;  // It is discarded instead of being uploaded.
};

class KeptTraces {
 public:
  // Uploads or discards a trace. Returns the trace with the time of its next attempt, or nothing if
  // it no longer waits.
  using Attempt = std::function<std::optional<KeptTrace>(KeptTrace trace)>;

  // `clock` must outlive this object.
  KeptTraces(const Clock& clock, Attempt attempt);
  ~KeptTraces();
  KeptTraces(const KeptTraces&) = delete;
  KeptTraces& operator=(const KeptTraces&) = delete;

  void Start();  // Without it, traces wait and no attempt is made.
  void Add(KeptTrace trace);
  // Has an attempt made for every trace that waits now. Blocks until then, for `within` at most.
  void AttemptAll(Nanos within);
  void Stop();  // Begins no further attempt. Does not wait for the one that is under way.

 private:
  void Run();

  const Clock& clock_;
  const Attempt attempt_;
  Mutex mutex_;
  std::map<std::string, KeptTrace> traces_ ABSL_GUARDED_BY(mutex_);
  int changes_ ABSL_GUARDED_BY(mutex_) = 0;  // What the thread waits for besides the next time.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strobe::spool
