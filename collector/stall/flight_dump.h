// Reads a Flight Recorder's dump in both of its forms: Python's pickle format, protocol 2, which
// are the files of TORCH_NCCL_DEBUG_INFO_TEMP_FILE, and the JSON of PyTorch's
// _dump_fr_trace_json(). Of pickles it takes the 21 opcodes that PyTorch writes and no other, so
// that nothing in a file can name, make or call anything.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "collector/stall/flight_record.h"

namespace strobe::stall {

// Does the file begin as a pickle?
bool LooksLikePickle(std::string_view bytes);

// DataLoss, with the offset and the opcode, if the bytes are damaged or another kind of pickle.
absl::StatusOr<FlightRecord> ReadFlightPickle(std::string_view bytes);

// JSON takes four times the bytes of a pickle, and eight times its own while it is read.
inline constexpr std::size_t kMaxJsonBytes = std::size_t{16} << 20;

// DataLoss if the text is no JSON, or another one.
absl::StatusOr<FlightRecord> ReadFlightJson(std::string_view text);

}  // namespace strobe::stall
