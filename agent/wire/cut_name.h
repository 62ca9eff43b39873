// Names that are too long for one record. C++ standard library only.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strobe::wire {

// FNV-1a.
constexpr std::uint64_t HashOf(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// A name that was cut ends with this mark and the hash of the whole name in hexadecimal, because
// mangled names of templates often differ only in what was cut off.
inline constexpr std::string_view kCutMark = "...";
inline constexpr std::size_t kCutEndBytes = kCutMark.size() + 16;

// The end of a cut name.
constexpr std::array<char, kCutEndBytes> CutEnd(std::string_view whole) {
  std::array<char, kCutEndBytes> end{};
  std::size_t at = 0;
  for (const char c : kCutMark) end[at++] = c;
  const std::uint64_t hash = HashOf(whole);
  for (int shift = 60; shift >= 0; shift -= 4) end[at++] = "0123456789abcdef"[hash >> shift & 15];
  return end;
}

// True if a name with at most `max` bytes was cut.
constexpr bool IsCut(std::string_view name, std::size_t max) {
  constexpr std::size_t kCharacter = 4;  // No character was divided.
  return name.size() + kCharacter > max && name.size() >= kCutEndBytes &&
         name.substr(name.size() - kCutEndBytes, kCutMark.size()) == kCutMark;
}

}  // namespace strobe::wire
