#include "common/http/query.h"

#include <charconv>
#include <cmath>

#include "common/base/strings.h"

namespace strobe::http {
namespace {

constexpr std::size_t kMaxParameters = 64;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

absl::Status Refuse(std::string_view name, std::string_view text, std::string_view wanted) {
  return absl::InvalidArgumentError(
      StrCat(name, ": \"", text.substr(0, 40), "\" is not a valid ", wanted));
}

}  // namespace

std::string UrlDecode(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low >= 0) {
      decoded.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      decoded.push_back(text[i] == '+' ? ' ' : text[i]);
    }
  }
  return decoded;
}

Query::Query(std::string_view text) {
  while (!text.empty() && parameters_.size() < kMaxParameters) {
    const std::string_view part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    parameters_.emplace_back(
        UrlDecode(part.substr(0, equals)),
        equals == std::string_view::npos ? "" : UrlDecode(part.substr(equals + 1)));
  }
}

bool Query::Has(std::string_view name) const {
  for (const auto& [known, value] : parameters_) {
    if (known == name) return true;
  }
  return false;
}

const std::string& Query::Text(std::string_view name) const {
  static const std::string kNone;
  for (const auto& [known, value] : parameters_) {
    if (known == name) return value;
  }
  return kNone;
}

absl::StatusOr<std::int64_t> Query::Integer(std::string_view name, std::int64_t absent,
                                            std::int64_t least, std::int64_t most) const {
  if (!Has(name)) return absent;
  const std::string& text = Text(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return Refuse(name, text, "integer");
  if (value < least || value > most)
    return absl::InvalidArgumentError(
        StrCat(name, ": ", value, " is not from ", least, " to ", most));
  return value;
}

absl::StatusOr<double> Query::Number(std::string_view name, double absent) const {
  if (!Has(name)) return absent;
  const std::string& text = Text(name);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return Refuse(name, text, "number");
  return value;
}

}  // namespace strobe::http
