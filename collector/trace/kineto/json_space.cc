#include "collector/trace/kineto/json_space.h"

namespace strobe::kineto {
namespace {

bool IsSeparator(char c) { return c == ',' || c == ':'; }

// The end of the text whose opening quote is at `at`.
std::size_t EndOfText(std::string_view json, std::size_t at) {
  for (++at; at < json.size(); ++at) {
    if (json[at] == '\\')
      ++at;
    else if (json[at] == '"')
      return at + 1;
  }
  return json.size();
}

}  // namespace

bool IsEvenlySpaced(std::string_view json) {
  for (std::size_t at = 0; at < json.size();) {
    const char c = json[at];
    if (c == '"') {
      at = EndOfText(json, at);
      continue;
    }
    if (IsJsonSpace(c)) return false;
    ++at;
    if (!IsSeparator(c)) continue;
    if (at == json.size() || json[at] != ' ') return false;
    ++at;
  }
  return true;
}

void AppendEvenlySpaced(std::string_view json, std::string& to) {
  bool spaced = false;    // White space was left out.
  bool separated = true;  // The token before needs no blank behind it.
  for (std::size_t at = 0; at < json.size();) {
    const char c = json[at];
    if (IsJsonSpace(c)) {
      spaced = true;
      ++at;
      continue;
    }
    // Damaged JSON may have two values without a comma, which must not become one.
    const bool closes = IsSeparator(c) || c == ']' || c == '}';
    if (spaced && !separated && !closes) to.push_back(' ');
    spaced = false;
    separated = IsSeparator(c) || c == '[' || c == '{';
    const std::size_t end = c == '"' ? EndOfText(json, at) : at + 1;
    to.append(json.substr(at, end - at));
    if (IsSeparator(c)) to.push_back(' ');
    at = end;
  }
}

}  // namespace strobe::kineto
