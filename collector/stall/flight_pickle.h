// Reads a Flight Recorder's dump in Python's pickle format, protocol 2: the files of
// TORCH_NCCL_DEBUG_INFO_TEMP_FILE. It takes the 21 opcodes that PyTorch writes there and no other,
// so that nothing in a file can name, make or call anything.
#pragma once
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/stall/flight_record.h"

namespace strobe::stall {

// Does the file begin as a pickle?
bool LooksLikePickle(std::string_view bytes);

// DataLoss, with the offset and the opcode, if the bytes are damaged or another kind of pickle.
absl::StatusOr<FlightRecord> ReadFlightPickle(std::string_view bytes);

}  // namespace strobe::stall
