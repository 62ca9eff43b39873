// One request to a process that records itself with its framework's profiler, over the socket that
// it announced. The protocol is that of strobe._inproc in the Python package. The process may be
// hostile: what it says is bounded and only believed where a wrong answer harms nobody else.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/protocol/outcome.h"
#include "sidecar/source/base/announcements.h"
#include "sidecar/source/base/process_ranks.h"
#include "sidecar/source/base/profile_call.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::source {

class InprocConnection;

struct InprocLimits {
  std::uint64_t max_bytes = 0;  // The limit on the trace.
  // Record also if training stands still while the recording stops; see --allow-stalls.
  bool may_stall = false;
};

// The request for a plan, a line of JSON. If the plan counts steps, the process begins and ends at
// their boundaries itself. Pure.
std::string InprocRequest(const v1::CapturePlan& plan, const Announcement& process,
                          const InprocLimits& limits);

struct InprocAnswer {
  CallVerdict verdict{Outcome::kOk, ""};
  bool recorded = false;  // There is a trace, even if the verdict is not kOk.
  std::string file{};     // The trace's name in the agent directory.
  std::string format{};   // "kineto" or "xspace".
  std::string note{};     // What the process says about its recording; may be empty.
  // This framework recorded nothing, and that is no fault: another one of the process records what
  // was asked for.
  bool aside = false;
  Rank rank{};  // The place of the process in its job, as it knows it now.
  // When it recorded, on the wall clock; 0 = it does not say.
  std::int64_t started_ns = 0, stopped_ns = 0;
  std::int64_t stop_took_ns = 0;           // How long stopping kept the process's profiler busy.
  std::optional<v1::EngineWork> engine{};  // What its inference server did meanwhile.
};

// Judges a line that the process sent; true if it was the last one. Pure.
bool ReadInprocLine(std::string_view line, std::string_view who, InprocAnswer& answer);

struct InprocCallbacks {
  std::function<Nanos()> until_deadline{};
  std::function<void()> stopped{};  // Recording has stopped. Called at most once.
};

// Sends the request and waits for the end: the last answer, the deadline, or cancellation, which
// the process notices at once. `terminate` ends the recording early and keeps what was recorded.
InprocAnswer CallProcess(const std::string& directory, const Announcement& process,
                         const std::string& request, const Cancellation& cancel,
                         const Cancellation& terminate, const InprocCallbacks& callbacks);

// Holds a process's profiler while the process's own server records for us, so that the program can
// have it back at any time: programs that begin a session of their own wait until ours has ended.
class InprocHold {
 public:
  // Asks the process. One that refuses, or does not answer, is recorded all the same, but see safe.
  InprocHold(const std::string& directory, const Announcement& process,
             const v1::CapturePlan& plan);
  ~InprocHold();

  // Waits for at most `timeout` for the answer.
  void Await(Nanos timeout);

  // The server's session has ended. Without this, the process finds that out by itself.
  void Release();
  // The program wants its profiler back. Does not block.
  bool WantsBack();
  // Whether the server may record devices and Python calls. Another framework of the process does
  // if not, and two profilers would disturb each other.
  bool leads() const { return leads_; }
  // Whether the process has seen to it that the end of a recording of NVIDIA's GPUs does not harm
  // it. If not, `why_unsafe` has its reason, if it gave one.
  bool safe() const { return safe_; }
  const std::string& why_unsafe() const { return why_unsafe_; }
  // What the process says of its recording, human-readable; may be empty.
  const std::string& note() const { return note_; }
  // The place of the process in its job, as it knows it now; none if it did not answer.
  const Rank& rank() const { return rank_; }

 private:
  // Reads the lines that have arrived.
  void Read();

  const std::unique_ptr<InprocConnection> connection_;
  const bool was_asked_;
  bool wanted_ = false;
  bool leads_ = true;
  bool safe_ = false;
  std::string note_{};
  std::string why_unsafe_ = "the process did not answer in time";
  Rank rank_{};
};

}  // namespace strobe::source
