// The report in one line.
#pragma once
#include <string>

#include "collector/trace/report/stragglers.h"

namespace strobe::report {

// For example "rank 5 holds up 7 others by 12.4ms a step (18%): input". Without a straggler it
// tells which difference would have been told, or why nothing can be told.
std::string Headline(const Job& job, const StragglerReport& report);

}  // namespace strobe::report
