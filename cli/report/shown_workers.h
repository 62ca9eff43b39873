// Which workers a report of a large job shows. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collector/trace/report/stragglers.h"

namespace strobe {

// At most `most`, by their places in the job: those that are late, and of the others those with the
// most time of their own. They are ordered by rank; those without one come last.
std::vector<std::uint32_t> ShownWorkers(const report::Job& job,
                                        const report::StragglerReport& report, std::size_t most);

// Whether the worker takes longer than the others, even if nobody waits for it.
bool IsLate(const report::StragglerReport& report, std::uint32_t worker);

}  // namespace strobe
