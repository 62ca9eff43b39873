// FNV-1a, a hash that is the same in every version and on every machine. Not for input that an
// attacker chooses, where a collision would do harm.
#pragma once
#include <cstdint>
#include <string_view>

namespace strobe {

inline std::uint64_t Fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace strobe
