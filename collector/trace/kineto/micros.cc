#include "collector/trace/kineto/micros.h"

#include <algorithm>
#include <string>

namespace strobe::kineto {
namespace {

constexpr std::int32_t kPsPerUs = 1'000'000;
constexpr std::size_t kMaxDigits = 18;  // Whole microseconds must fit into 64 bits.
constexpr std::size_t kPsDigits = 6;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "12.5e3" in parts: the digits 12 and 5 and the power 3.
struct Decimal {
  bool negative = false;
  std::string_view whole{}, fraction{};
  int power = 0;
};

std::string_view TakeDigits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), IsDigit);
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

bool Take(char c, std::string_view& text) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<Decimal> Split(std::string_view text) {
  Decimal number;
  number.negative = Take('-', text);
  number.whole = TakeDigits(text);
  if (number.whole.empty()) return std::nullopt;
  if (Take('.', text)) {
    number.fraction = TakeDigits(text);
    if (number.fraction.empty()) return std::nullopt;
  }
  if (Take('e', text) || Take('E', text)) {
    const bool below = !Take('+', text) && Take('-', text);
    const std::string_view digits = TakeDigits(text);
    if (digits.empty() || digits.size() > 4) return std::nullopt;
    for (const char c : digits) number.power = number.power * 10 + (c - '0');
    if (below) number.power = -number.power;
  }
  return text.empty() ? std::optional(number) : std::nullopt;
}

// Moves the decimal point, so that the power is 0. `digits` holds the result's digits.
bool Shift(Decimal& number, std::string& digits) {
  constexpr int kMaxPower = 400;  // More than a double can be.
  if (std::abs(number.power) > kMaxPower) return false;
  const auto shift = static_cast<std::size_t>(std::abs(number.power));
  std::size_t point = number.whole.size();
  if (number.power < 0) {
    digits.assign(shift, '0');
    digits += number.whole;
    digits += number.fraction;
  } else {
    digits = number.whole;
    digits += number.fraction;
    digits.append(shift, '0');
    point += shift;
  }
  number.whole = std::string_view(digits).substr(0, point);
  number.fraction = std::string_view(digits).substr(point);
  number.power = 0;
  return true;
}

}  // namespace

std::optional<std::int64_t> Micros::PsSince(std::int64_t from_us) const {
  std::int64_t sum = 0;
  if (__builtin_sub_overflow(us, from_us, &sum) ||
      __builtin_mul_overflow(sum, std::int64_t{kPsPerUs}, &sum) ||
      __builtin_add_overflow(sum, std::int64_t{ps}, &sum))
    return std::nullopt;
  return sum;
}

std::optional<Micros> ParseMicros(std::string_view text) {
  std::optional<Decimal> number = Split(text);
  if (!number) return std::nullopt;
  std::string digits;
  if (number->power != 0 && !Shift(*number, digits)) return std::nullopt;
  std::string_view whole = number->whole;
  while (whole.size() > 1 && whole.front() == '0') whole.remove_prefix(1);
  if (whole.size() > kMaxDigits) return std::nullopt;
  Micros time;
  for (const char c : whole) time.us = time.us * 10 + (c - '0');
  const std::string_view fraction = number->fraction;
  for (std::size_t i = 0; i < kPsDigits; ++i)
    time.ps = time.ps * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
  if (fraction.size() > kPsDigits && fraction[kPsDigits] >= '5') ++time.ps;
  if (number->negative) {
    time.us = -time.us;
    time.ps = -time.ps;
  }
  if (time.ps < 0) {
    --time.us;
    time.ps += kPsPerUs;
  } else if (time.ps == kPsPerUs) {
    ++time.us;
    time.ps = 0;
  }
  return time;
}

}  // namespace strobe::kineto
