// What NCCL's RAS subsystem answers to STATUS and VERBOSE STATUS: how many collectives each rank of
// each communicator has launched, and which processes do not answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe::stall {

inline constexpr std::size_t kMaxRasBytes = std::size_t{16} << 20;

struct RasCount {
  std::string op{};        // "AllReduce"
  std::int64_t count = 0;  // Raised when the host launches one; replays of graphs do not count.
};

struct RasRank {
  int rank = 0;  // In the communicator.
  std::string host{};
  std::int64_t pid = -1;  // In the PID namespace of its container.
  std::string gpu{};
  std::int64_t init_state = 0, async_error = 0;  // 0 is success, 7 in progress.
  std::string trouble{};           // What the text says of this rank's state or error.
  std::vector<RasCount> counts{};  // The text names only those that differ from the others'.
};

// A rank of which RAS has no data.
struct RasMissing {
  int rank = 0;
  std::string host{};
  std::int64_t pid = -1;
  bool dead = false;  // Given up, after about a minute.
};

// So many ranks, which the text does not name, have launched as many.
struct RasUsual {
  std::string op{};
  int ranks = 0;
  std::int64_t count = 0;
};

struct RasCommunicator {
  std::string hash{};  // 16 hexadecimal digits.
  int size = 0;        // 0 if the text does not say.
  std::vector<RasRank> ranks{};
  std::vector<RasMissing> missing{};
  std::vector<RasUsual> usual{};
};

struct RasReport {
  std::string nccl_version{}, timestamp{};
  bool whole = false;  // Does it have its end? JSON always does.
  int timeouts = 0;    // While RAS collected it.
  int missing_processes = 0, dead_processes = 0;
  std::vector<RasCommunicator> communicators{};  // In a text, those with something to say.
};

bool LooksLikeRas(std::string_view text);

// Takes text and JSON of NCCL 2.24 to 2.30. NCCL 2.28.7 and 2.28.9 forget a comma in JSON, which is
// put where it belongs. DataLoss for anything else.
absl::StatusOr<RasReport> ReadRasReport(std::string_view text);

absl::StatusOr<RasReport> ReadRasJson(std::string_view text);

// Puts the comma behind a missing rank's nvml_dev, which NCCL 2.28.7 and 2.28.9 forget.
std::string WithCommas(std::string_view text);

}  // namespace strobe::stall
