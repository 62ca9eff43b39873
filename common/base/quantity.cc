#include "common/base/quantity.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace strobe {
namespace {

constexpr double kKibi = 1024.0;
constexpr std::array<std::pair<std::string_view, double>, 10> kUnits = {{{"", 1},
                                                                         {"m", 1e-3},
                                                                         {"k", 1e3},
                                                                         {"M", 1e6},
                                                                         {"G", 1e9},
                                                                         {"T", 1e12},
                                                                         {"Ki", kKibi},
                                                                         {"Mi", kMebi},
                                                                         {"Gi", kMebi* kKibi},
                                                                         {"Ti", kMebi* kMebi}}};
constexpr std::size_t kMaxDigits = 12;

std::string_view TakeDigits(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  return digits;
}

}  // namespace

std::optional<double> ParseQuantity(std::string_view text) {
  const std::string_view whole = TakeDigits(text);
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = TakeDigits(text);
    if (fraction.empty()) return std::nullopt;
  }
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(),
                                 [text](const auto& known) { return known.first == text; });
  if (whole.empty() || whole.size() + fraction.size() > kMaxDigits || unit == kUnits.end())
    return std::nullopt;
  double value = 0, place = 1;
  for (const char digit : whole) value = value * 10 + (digit - '0');
  for (const char digit : fraction) value += (digit - '0') * (place /= 10);
  return value * unit->second;
}

}  // namespace strobe
