// Makes the record of a Flight Recorder's dump.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/stall/flight_record.h"

namespace strobe::stall {

// A value of a dump: what both of its forms can hold. Its texts point into the dump, which outlives
// it.
struct DumpValue {
  enum class Kind : std::uint8_t { kNone, kBool, kNumber, kText, kList, kDict, kEntry };

  Kind kind = Kind::kNone;
  std::uint8_t depth = 0;   // How many lists and dicts are inside of each other.
  std::int32_t memo = -1;   // The pickle's memo that holds this value.
  std::int64_t number = 0;  // Also of a bool, and rounded of a float.
  std::string_view text{};
  std::vector<DumpValue> items{};  // In a dict, keys and values alternate.

  static DumpValue None() { return {}; }
  static DumpValue Bool(bool value) {
    DumpValue made;
    made.kind = Kind::kBool;
    made.number = value ? 1 : 0;
    return made;
  }
  static DumpValue Number(std::int64_t value) {
    DumpValue made;
    made.kind = Kind::kNumber;
    made.number = value;
    return made;
  }
  static DumpValue Text(std::string_view value) {
    DumpValue made;
    made.kind = Kind::kText;
    made.text = value;
    return made;
  }
  static DumpValue Empty(Kind kind) {
    DumpValue made;
    made.kind = kind;
    made.depth = 1;
    return made;
  }

  bool is(Kind other) const { return kind == other; }
  // The value under a key of a dict; nullptr if this is none, or has no such key.
  const DumpValue* Find(std::string_view key) const {
    if (kind != Kind::kDict) return nullptr;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i].text == key) return &items[i + 1];
    }
    return nullptr;
  }
};

// Makes a FlightRecord of a dump's values, of an entry as soon as it is read, so that a dump takes
// little more memory than its record.
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
  // A dump may have one long text, and name it again and again.
  absl::Status CheckKept() const;

  FlightRecord record_{};
  std::size_t kept_bytes_ = 0;  // What texts and groups take.
  std::map<std::string, std::uint32_t, std::less<>> texts_{};
  std::map<std::pair<std::string, std::string>, std::uint32_t> groups_{};
};

// The ranks in a text such as "[0, 1, 5]", in ascending order; those that cannot be ranks are left
// out.
std::vector<int> RanksOfText(std::string_view text);

}  // namespace strobe::stall
