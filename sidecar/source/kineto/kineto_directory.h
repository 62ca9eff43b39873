// The directory, seen by trainer and sidecar under the same path, in which processes leave the
// traces of Kineto's on-demand protocol. Everybody may write there, so its content is not trusted.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "sidecar/source/kineto/kineto_verdict.h"

namespace strobe::source {

// Creates the directory, which every user may write to, with the file for $KINETO_CONFIG
// that makes processes ask every second.
absl::Status PrepareKinetoDirectory(const std::string& directory);

// The name, below the directory, of a trace of this sidecar that nobody can guess.
std::string NewKinetoTrace(const std::string& directory);

// What is there of the trace `path` now. Keeps KinetoSigns::began.
void LookForTrace(const std::string& path, MonoTime now, KinetoSigns& signs);

// Removes a trace that its process will not finish.
void RemoveUnfinishedTrace(const std::string& path);

// Removes finished traces whose name begins with none of `awaited` and, when they are older than
// `stale`, unfinished ones and the sockets of processes that have ended. Looks at a bounded number
// of files.
void TidyKinetoDirectory(const std::string& directory, const std::vector<std::string>& awaited,
                         Nanos stale);

}  // namespace strobe::source
