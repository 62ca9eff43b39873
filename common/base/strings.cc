#include "common/base/strings.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace strobe {

bool Contains(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

bool ContainsIgnoreCase(std::string_view text, std::string_view word) {
  return Contains(absl::AsciiStrToLower(ToAbsl(text)), absl::AsciiStrToLower(ToAbsl(word)));
}

std::vector<std::string> Split(std::string_view text, char separator) {
  return absl::StrSplit(ToAbsl(text), separator);
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  return absl::StrJoin(parts, ToAbsl(separator));
}

}  // namespace strobe
