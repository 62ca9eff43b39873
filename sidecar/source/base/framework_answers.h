// Joins the answers of a worker's profilers to one recording with a row for each.
#pragma once
#include <grpcpp/support/byte_buffer.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/store/object_store.h"
#include "sidecar/capture/ports.h"
#include "sidecar/source/base/announcements.h"
#include "sidecar/source/base/process_ranks.h"
#include "sidecar/source/base/profile_call.h"
#include "sidecar/source/base/profile_calls.h"
#include "sidecar/source/base/recording_times.h"
#include "sidecar/source/base/server_risks.h"

namespace strobe::source {

struct FrameworkAnswer {
  std::string address{};  // The server's address, or the name of the process; the row's name.
  std::string who{};      // For messages, such as "profiler server at 127.0.0.1:9012".
  // For any other age, host annotations were left out.
  ServerAge age = ServerAge::kSince2026;
  CallVerdict verdict{Outcome::kOk, ""};  // The reason if there is no trace.
  std::string trace{};
  Rank rank{};                              // The place of the process in its job.
  Role role = Role::kWorker;                // Whether its failure is one of the capture.
  std::string job_role{}, job_role_from{};  // As in Announcement.
  std::string note{};                       // What the process says about its recording.
  std::int64_t stop_took_ns = 0;  // How long its profiler needed to stop; 0 = it does not say.
  std::optional<v1::EngineWork> engine{};  // What an inference server in the process did.
  // Another framework of the same process announced itself too. An empty trace of this one is then
  // no fault.
  bool beside = false;
  // The trace has only what the profiler says of itself.
  bool nothing_recorded = false;
  // How far before the start the trace reaches back, if it does.
  std::optional<std::int64_t> reached_back_ns{};
  bool counts_steps = false;     // It told steps of the plan's loop when recording began.
  session::Original original{};  // Without a file if it is not kept.
};

// The directory where older servers write their traces, and the limits for reading it.
struct SharedTraces {
  std::string directory{};  // Empty if there is none.
  std::uint64_t max_bytes = 0;
  storage::StoreLimits limits{};
};

// Takes the trace from a call that has ended, or from the directory where an older server wrote it.
FrameworkAnswer TakeAnswer(ProfileCalls::Call& call, const std::string& address,
                           const SharedTraces& shared);

// Judges each trace separately and joins those of one local rank; see GroupByRank. Keeps every
// trace that can be read with at most `max_memory` bytes. A companion of which nothing was recorded
// has a row with the reason and no part in the outcome, and so has a process of unclear role that
// ran nothing while another one did. Pure.
std::vector<session::Recording> JoinAnswers(const v1::CapturePlan& plan,
                                            const RecordingTimes& times, std::uint64_t max_memory,
                                            std::vector<FrameworkAnswer> answers);

// Returns the field `xspace` of a serialized ProfileResponse, or nothing if the answer has none.
// Empties the answer: each of its slices is freed as soon as it has been copied, so that the trace
// is in memory once and not twice. InvalidArgument if the answer is malformed.
absl::StatusOr<std::optional<std::string>> TakeXSpace(grpc::ByteBuffer& answer);

}  // namespace strobe::source
