// Message authentication codes: the holder of the key can detect that a text was changed.
#pragma once
#include <string>
#include <string_view>

namespace strobe {

// HMAC-SHA256 (RFC 2104) as 64 lower-case hexadecimal digits.
std::string HmacSha256(std::string_view key, std::string_view text);

// Compares in a time that depends only on the lengths, so that an attacker cannot guess a code
// digit by digit.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace strobe
