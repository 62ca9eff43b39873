// The names that the API and the command line have for the levels of v1::Tracers. The index of a
// name is its number on the wire. The names of the host's levels are those of XLA's TraceMeLevel.
// "Off" is not used, because YAML 1.1 reads it as false.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/strings.h"

namespace strobe {

inline constexpr std::array<std::string_view, 4> kHostLevels = {"Disabled", "Critical", "Info",
                                                                "Verbose"};
inline constexpr std::array<std::string_view, 2> kSwitchLevels = {"Disabled", "Enabled"};

inline constexpr std::uint32_t kDefaultHostLevel = 2, kDefaultDeviceLevel = 1;

// The number of the level; nothing if there is no such name.
inline std::optional<std::uint32_t> LevelOfName(std::span<const std::string_view> names,
                                                std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - names.begin());
}

// "Disabled, Enabled", human-readable.
inline std::string LevelNames(std::span<const std::string_view> names) {
  return Join(std::vector<std::string>(names.begin(), names.end()), ", ");
}

}  // namespace strobe
