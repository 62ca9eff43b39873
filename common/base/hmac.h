// Keyed hashes: who has the key can tell whether a text is still the one that was sealed.
#pragma once
#include <string>
#include <string_view>

namespace strobe {

// HMAC-SHA256 (RFC 2104), 64 lower-case digits.
std::string HmacSha256(std::string_view key, std::string_view text);

// Takes as long for texts of one length wherever they differ.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace strobe
