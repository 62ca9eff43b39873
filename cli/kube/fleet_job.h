// The Job whose pods convert the runs of a logdir. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe::cluster {

inline constexpr int kExitBadRuns = 3;  // strobe fleet found damaged traces in some runs.

struct FleetJobOptions {
  std::string name = "strobe-fleet";
  std::string image{};
  std::string logdir{}, out{};  // URLs, or absolute paths in a volume of `claims`.
  std::uint32_t workers = 8;    // Shares of the runs.
  std::uint32_t at_once = 0;    // Pods that run at the same time; 0 = all.
  bool stats = true;
  std::string service_account{};          // Empty = the namespace's default.
  std::vector<std::string> secrets{};     // Their keys become environment variables.
  std::vector<std::string> claims{};      // "CLAIM:/path": volumes and where they are mounted.
  std::string cpu = "1", memory = "1Gi";  // What each pod requests.
  std::string disk = "20Gi";              // For the tables of one run at a time.
  // After these, the share is not tried again.
  std::vector<int> hopeless_exit_codes{};
};

// An Indexed Job, each index of which runs `strobe fleet` for its share of the runs. A pod that is
// evicted is replaced without counting as a failure; a share with a damaged run is not repeated.
// InvalidArgument says what is wrong with the options.
absl::StatusOr<nlohmann::ordered_json> MakeFleetJob(const FleetJobOptions& options);

}  // namespace strobe::cluster
