// A value of a Flight Recorder's dump: what both of its forms can hold.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strobe::stall {

struct DumpValue {
  enum class Kind : std::uint8_t { kNone, kBool, kNumber, kText, kList, kDict, kEntry };

  Kind kind = Kind::kNone;
  std::uint8_t depth = 0;   // How many lists and dicts are inside of each other.
  std::int32_t memo = -1;   // The pickle's memo that holds this value.
  std::int64_t number = 0;  // Also of a bool, and rounded of a float.
  std::string text{};
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

}  // namespace strobe::stall
