// Makes a FlightRecord of a dump's values, of an entry as soon as it is read, so that a dump takes
// little more memory than its record.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/status/statusor.h"
#include "collector/stall/dump_value.h"
#include "collector/stall/flight_record.h"

namespace strobe::stall {

class FlightBuilder {
 public:
  FlightBuilder();

  // Is this dict an entry of the recorder?
  static bool IsEntry(const DumpValue& dict);
  absl::Status AddEntry(const DumpValue& dict);
  // `root`: the dump's dict; its entries have been added.
  absl::StatusOr<FlightRecord> Finish(const DumpValue& root);

 private:
  std::uint32_t TextIndex(std::string_view text);
  absl::StatusOr<std::uint32_t> GroupIndex(std::string_view name, std::string_view desc);
  absl::Status AddConfig(const DumpValue& config);

  FlightRecord record_{};
  std::unordered_map<std::string, std::uint32_t> texts_{};
  std::map<std::pair<std::string, std::string>, std::uint32_t> groups_{};
};

// The ranks in a text such as "[0, 1, 5]", in ascending order; those that cannot be ranks are left
// out.
std::vector<int> RanksOfText(std::string_view text);

}  // namespace strobe::stall
