#include "common/text/quantity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/base/strings.h"

namespace strobe {
namespace {

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 6> kBinary = {
    {{"Ei", 1ull << 60},
     {"Pi", 1ull << 50},
     {"Ti", 1ull << 40},
     {"Gi", 1ull << 30},
     {"Mi", 1ull << 20},
     {"Ki", 1ull << 10}}};
constexpr std::array<std::pair<std::string_view, std::uint64_t>, 6> kDecimal = {
    {{"E", 1'000'000'000'000'000'000},
     {"P", 1'000'000'000'000'000},
     {"T", 1'000'000'000'000},
     {"G", 1'000'000'000},
     {"M", 1'000'000},
     {"k", 1'000}}};
constexpr std::array<std::pair<std::string_view, double>, 4> kSmall = {
    {{"", 1}, {"m", 1e-3}, {"u", 1e-6}, {"n", 1e-9}}};
constexpr std::size_t kMaxDigits = 18, kMaxExponentDigits = 2;

std::string_view TakeDigits(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  return digits;
}

template <typename Units>
std::optional<double> Find(const Units& units, std::string_view name) {
  for (const auto& [unit, factor] : units) {
    if (unit == name) return static_cast<double>(factor);
  }
  return std::nullopt;
}

// The power of ten that "e3" or "E-3" stands for.
std::optional<double> ParseExponent(std::string_view text) {
  if (!text.starts_with('e') && !text.starts_with('E')) return std::nullopt;
  text.remove_prefix(1);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const std::string_view digits = TakeDigits(text);
  if (digits.empty() || digits.size() > kMaxExponentDigits || !text.empty()) return std::nullopt;
  int exponent = 0;
  for (const char digit : digits) exponent = exponent * 10 + (digit - '0');
  return std::pow(10, negative ? -exponent : exponent);
}

}  // namespace

std::optional<double> ParseUnit(std::string_view text) {
  for (const std::optional<double> unit :
       {Find(kSmall, text), Find(kBinary, text), Find(kDecimal, text)}) {
    if (unit) return unit;
  }
  return ParseExponent(text);
}

std::optional<double> ParseQuantity(std::string_view text) {
  const std::string_view whole = TakeDigits(text);
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = TakeDigits(text);
  }
  const std::size_t digits = whole.size() + fraction.size();
  const std::optional<double> unit = ParseUnit(text);
  if (digits < 1 || digits > kMaxDigits || !unit) return std::nullopt;
  double value = 0, place = 1;
  for (const char digit : whole) value = value * 10 + (digit - '0');
  for (const char digit : fraction) value += (digit - '0') * (place /= 10);
  return value * *unit;
}

std::optional<std::uint64_t> ParseBytes(std::string_view text) {
  const std::optional<double> value = ParseQuantity(text);
  if (!value || *value <= 0 || *value > 9e18) return std::nullopt;
  return static_cast<std::uint64_t>(std::ceil(*value));
}

std::string FormatQuantity(std::uint64_t value) {
  std::string shortest = StrCat(value);
  for (const auto& units : {kBinary, kDecimal}) {
    for (const auto& [unit, factor] : units) {
      if (value < factor || value % factor != 0) continue;
      std::string text = StrCat(value / factor, unit);
      if (text.size() < shortest.size()) shortest = std::move(text);
    }
  }
  return shortest;
}

std::string RoundedQuantity(std::uint64_t bytes) {
  constexpr std::uint64_t kMinCount = 10;  // Keeps the rounding below a twentieth of the value.
  for (const auto& [unit, factor] : kBinary) {
    if (bytes / factor >= kMinCount) return StrCat((bytes + factor / 2) / factor, unit);
  }
  return StrCat(bytes);
}

}  // namespace strobe
