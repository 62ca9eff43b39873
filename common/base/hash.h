// Checksums of manifests and objects, message authentication codes, by which the holder of the key
// detects that a text was changed, and a quick hash.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace strobe {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);
  std::string Hex();  // 64 lower-case hexadecimal digits. Call once, at the end.

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// FNV-1a, a hash that is the same in every version and on every machine. Not for input that an
// attacker chooses, where a collision would do harm.
inline std::uint64_t Fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// HMAC-SHA256 (RFC 2104) as 64 lower-case hexadecimal digits.
std::string HmacSha256(std::string_view key, std::string_view text);

// Compares in a time that depends only on the lengths, so that an attacker cannot guess a code
// digit by digit.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace strobe
