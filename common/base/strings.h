// String helpers for std::string_view. Debian builds abseil with its own string_view type, which
// does not convert to the standard one. Only this file converts between the two.
#pragma once
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace strobe {

inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view ToStd(absl::string_view text) { return {text.data(), text.size()}; }

// Like absl::StrCat, and also takes std::string_view.
template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  const auto adapt = []<typename Part>(const Part& part) -> decltype(auto) {
    if constexpr (std::is_same_v<Part, std::string_view>)
      return ToAbsl(part);
    else
      return (part);
  };
  return absl::StrCat(adapt(parts)...);
}

// The message of a status, without its code.
inline std::string MessageOf(const absl::Status& status) {
  return std::string(ToStd(status.message()));
}

bool Contains(std::string_view text, std::string_view word);
bool ContainsIgnoreCase(std::string_view text, std::string_view word);
// Splits at every separator and keeps empty parts.
std::vector<std::string> Split(std::string_view text, char separator);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);

}  // namespace strobe
