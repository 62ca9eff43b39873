// The report in one line.
#pragma once
#include <string>

#include "collector/trace/report/stragglers.h"

namespace strobe::report {

// Figures as headlines and tables write them.
std::string TimeText(double ns);        // "12.4ms"
std::string PercentText(double share);  // "1.3%" or "13%"; without a sign.

// For example "rank 5 holds up 7 others by 12.4ms a step (18%): input". Without a straggler it
// tells which difference would have been told, or why nothing can be told.
std::string Headline(const Job& job, const StragglerReport& report);

}  // namespace strobe::report
