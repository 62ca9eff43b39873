// Writes which workers hold up the others as JSON. Pure.
#pragma once
#include <nlohmann/json.hpp>

#include "collector/trace/report/stragglers.h"

namespace strobe {

// All of the report. Times are in ns; those with an error have its half-width at 95 % beside them.
// What is not known is null.
nlohmann::ordered_json StragglersToJson(const report::Job& job,
                                        const report::StragglerReport& report);

}  // namespace strobe
