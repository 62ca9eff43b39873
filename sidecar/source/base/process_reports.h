// Derives a worker's result from the results of its processes. Pure.
#pragma once
#include <string>
#include <string_view>

#include "sidecar/capture/ports.h"

namespace strobe::source {

// The note of a process that is no worker, and was therefore not recorded, begins with this. Its
// outcome is Ok.
inline constexpr std::string_view kLeftOut = "left out: ";
bool IsLeftOut(const v1::ProcessReport& process);

// Sets the recording's outcome to that of its worst process. The message tells how many processes
// were recorded as asked, without those that are left out, and names the worst one. A worse outcome
// that is set already is kept.
void ConcludeProcesses(session::Recording& recording);

// Joins the recordings of the framework's servers and of another source; ConcludeProcesses must
// have been called for each. Each is kept even if the other one failed, but of the framework's
// servers not a recording that says only that nothing listens on the default address. `source`
// names the other one in messages and in the names of its planes: "agent".
session::Recording JoinRecordings(session::Recording framework, session::Recording other,
                                  std::string_view source);

}  // namespace strobe::source
