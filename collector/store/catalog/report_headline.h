// The headline of a run's report or verdict on a stall, read without the rest of it.
#pragma once
#include <string>
#include <string_view>

#include "collector/store/object_store.h"

namespace strobe::catalog {

inline constexpr std::size_t kMaxHeadlineBytes = 300;

// The headline in the first bytes of report.json or evidence.json; empty if it is not there.
// Bounded and valid UTF-8. Pure.
std::string HeadlineIn(std::string_view head);

// Reads these bytes. Empty if the run has neither or the store does not give it: a list of runs
// is of use without headlines.
std::string ReadHeadline(storage::ObjectStore& store, const std::string& run);

}  // namespace strobe::catalog
