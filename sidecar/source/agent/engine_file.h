// The iterations that processes of inference servers tell: the files *.engine that strobe._inproc
// of the Python package keeps in the agent directory. They come from the server, which may be
// hostile.
#pragma once
#include <vector>

#include "common/base/file_descriptor.h"
#include "sidecar/capture/engine_reading.h"
#include "sidecar/source/base/announcements.h"

namespace strobe::source {

inline constexpr std::size_t kMaxEngines = 128;

// Adds what the process tells of its engine now; nothing if it announced no such file, or one that
// is not complete.
void AddEngineOf(const FileDescriptor& agent_directory, const Announcement& process,
                 std::vector<session::EngineReading>& told);

}  // namespace strobe::source
