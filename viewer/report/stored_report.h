// The report that a capture has stored with its run, or the verdict on a job that stood still.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "viewer/run/library.h"

namespace strobe::viewer {

struct StoredReport {
  nlohmann::ordered_json report{};  // As ReadReport gives it. Null: there is none to be shown.
  // As ReadVerdict gives it. Null: the run has no evidence. One with evidence has no report.
  nlohmann::ordered_json evidence{};
  std::string problem{};  // Why what is stored cannot be shown; empty: nothing is stored.
};

StoredReport ReadStoredReport(Library& library, const std::string& run);

}  // namespace strobe::viewer
