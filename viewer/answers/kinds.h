// What kind of work the events of a name are: what the timeline is coloured by.
#pragma once
#include <string>

#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// JSON {rows, device, host}: the numbers of the rows that show a device's work, and the names of
// work on devices and of events of hosts, by kind: {communication, copies, input, collection}. All
// other work on devices computes; of other events of hosts nothing is told. The kinds are those of
// the report, as far as names tell them; of many names, some are left out.
std::string KindsOf(const LoadedRun& run);

}  // namespace strobe::viewer
