// What processes without a ring file leave in the agent directory: training steps (*.steps),
// iterations of inference servers (*.engine), and why Strobe could not reach the framework's
// profiler (*.failed). They come from the trainer, which may be hostile.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "agent/wire/layout.h"
#include "common/base/file_descriptor.h"
#include "sidecar/capture/engine_reading.h"
#include "sidecar/source/base/announcements.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::source {

// False if the process announced no such file, or one that is not complete. Reads a copy, because
// access to a mapped file that the process truncates would end this process.
bool ReadStepFile(const FileDescriptor& agent_directory, const Announcement& process,
                  wire::StepFile& content);

// Adds what the process tells of its loops now, whatever it does meanwhile; nothing if it announced
// no such file, or one that is not complete. `wall_minus_monotonic_ns` converts its times.
void AddStepsOf(const FileDescriptor& agent_directory, const Announcement& process,
                std::int64_t wall_minus_monotonic_ns, std::vector<v1::StepPace>& told);

inline constexpr std::size_t kMaxEngines = 128;

// Adds what the process tells of its engine now; nothing if it announced no such file, or one that
// is not complete.
void AddEngineOf(const FileDescriptor& agent_directory, const Announcement& process,
                 std::vector<session::EngineReading>& told);

// A process in which Strobe could not reach the framework's profiler. The agent and
// strobe_bootstrap.py write the file.
struct FailedStart {
  std::string process{};  // "<pid>" or "<container>@<pid>", in the process's own PID namespace.
  std::string message{};  // One line of valid UTF-8.
  bool lives = false;     // The process runs: it holds a lock on its file.

  std::string container() const;  // Empty if it is not known.
  std::string pid() const;        // Digits, unless the name is forged.
};

// What processes told: at most kMaxFailedStarts files. Removes those of processes that have ended.
// A file that cannot be removed is left out, because it would be told again each time.
inline constexpr std::size_t kMaxFailedStarts = 64;
std::vector<FailedStart> TakeFailedStarts(const std::string& directory);

}  // namespace strobe::source
