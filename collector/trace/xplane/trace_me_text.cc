#include "collector/trace/xplane/trace_me_text.h"

#include <algorithm>

namespace strobe::xplane {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The length of the first pair, which ends at the first comma outside of quotes and brackets.
std::size_t PairEnd(std::string_view text) {
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{' || c == '(') {
      ++depth;
    } else if (c == ']' || c == '}' || c == ')') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      return i;
    }
  }
  return text.size();
}

}  // namespace

TraceMeText ParseTraceMe(std::string_view text) {
  TraceMeText parsed{.name = text, .args = {}};
  if (!text.ends_with('#')) return parsed;
  const std::string_view body = text.substr(0, text.size() - 1);
  const std::size_t hash = body.find('#');
  parsed.name = body.substr(0, hash);
  if (hash == std::string_view::npos) return parsed;
  std::string_view rest = body.substr(hash + 1);
  rest = rest.substr(0, rest.find('#'));
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, PairEnd(rest));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = Trim(pair.substr(0, equals));
    const std::string_view value = Trim(pair.substr(equals + 1));
    if (!key.empty() && !value.empty()) parsed.args.emplace_back(key, value);
  }
  return parsed;
}

}  // namespace strobe::xplane
