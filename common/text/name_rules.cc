#include "common/text/name_rules.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace strobe {
namespace {

bool IsSafeChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

}  // namespace

bool IsSafeName(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), IsSafeChar);
}

std::string ToSafeName(std::string_view text, std::size_t longest) {
  std::string name(text.substr(0, longest));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !IsSafeChar(c); }, '_');
  if (name.empty()) return "_";
  if (name.front() == '.') name.front() = '_';
  return name;
}

}  // namespace strobe
