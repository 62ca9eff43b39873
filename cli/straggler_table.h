// Shows to people which workers hold up the others of their job. Pure.
#pragma once
#include <string>

#include "collector/report/stragglers.h"

namespace strobe {

// The headline, a line for each worker that is late and for each stage that is longer, the
// collectives that were waited for longest, and what cannot be known. Only the headline for a
// single worker, because there is nobody to compare it with.
std::string RenderStragglers(const report::Job& job, const report::StragglerReport& report);

}  // namespace strobe
