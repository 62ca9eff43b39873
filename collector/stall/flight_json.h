// Reads a Flight Recorder's dump in its JSON form, which _dump_fr_trace_json() of PyTorch writes.
#pragma once
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/stall/flight_record.h"

namespace strobe::stall {

// It takes four times the bytes of a pickle, and eight times its own while it is read.
inline constexpr std::size_t kMaxJsonBytes = std::size_t{16} << 20;

// DataLoss if the text is no JSON, or another one.
absl::StatusOr<FlightRecord> ReadFlightJson(std::string_view text);

}  // namespace strobe::stall
