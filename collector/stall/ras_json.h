// Reads RAS's answer in JSON, for ras_report.h.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/stall/ras_report.h"

namespace strobe::stall {

absl::StatusOr<RasReport> ReadRasJson(std::string_view text);

// Puts the comma behind a missing rank's nvml_dev, which NCCL 2.28.7 and 2.28.9 forget.
std::string WithCommas(std::string_view text);

}  // namespace strobe::stall
