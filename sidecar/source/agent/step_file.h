// The training steps that processes without a ring file tell: the files *.steps that strobe._inproc
// of the Python package keeps in the agent directory. They come from the trainer, which may be
// hostile.
#pragma once
#include <cstdint>
#include <vector>

#include "agent/wire/layout.h"
#include "common/base/file_descriptor.h"
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

}  // namespace strobe::source
