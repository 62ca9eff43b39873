// What the profiler servers of a worker answered, as one recording with a row for each of them.
#pragma once
#include <string>
#include <vector>

#include "collector/logdir/object_store.h"
#include "sidecar/session/ports.h"
#include "sidecar/source/profile_call.h"
#include "sidecar/source/profile_calls.h"
#include "sidecar/source/recording_times.h"
#include "sidecar/source/server_age.h"

namespace strobe {

struct FrameworkAnswer {
  std::string address{};
  ServerAge age = ServerAge::kSince2026;  // Otherwise host annotations were left out.
  CallVerdict verdict{Outcome::kOk, ""};  // Why there is no trace.
  std::string trace{};
};

// Where older servers write their traces, and what may be taken from there.
struct SharedTraces {
  std::string directory{};  // Empty: nowhere.
  std::uint64_t most_bytes = 0;
  StoreLimits limits{};
};

// Takes the trace out of a call that has ended, or out of the directory where an older server wrote
// it.
FrameworkAnswer TakeAnswer(ProfileCalls::Call& call, const std::string& address,
                           const SharedTraces& shared);

// Judges each trace by itself and joins them; keeps every trace that came and that takes no more
// than `most_memory` to be read. Pure.
session::Recording JoinAnswers(const v1::CapturePlan& plan, const RecordingTimes& times,
                               std::uint64_t most_memory, std::vector<FrameworkAnswer> answers);

}  // namespace strobe
