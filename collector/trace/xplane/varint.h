// Variable-length integers, 7 bits per byte, without the fields of a message around them. Reading
// never passes the end; a number that is cut off reads as 0.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strobe::wire {

inline constexpr std::size_t kMaxVarint = 10;  // Bytes.

// Writes a number and moves `at` behind it. There must be room for kMaxVarint bytes. Most numbers
// of an index have one to three bytes, which a processor predicts better than it computes them.
[[gnu::always_inline]] inline void PutVarint(std::uint64_t value, char*& at) {
  char* to = at;
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<char>(value | 0x80);
  *to++ = static_cast<char>(value);
  at = to;
}

class VarintReader {
 public:
  explicit VarintReader(std::string_view bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }

  std::uint64_t Next() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at_ != end_ && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return 0;
  }

 private:
  const char* at_;
  const char* end_;
};

// Maps numbers that are near zero, of either sign, to small unsigned ones, which are short varints.
inline std::uint64_t ZigZag(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::int64_t UnZigZag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1 ^ (0 - (value & 1)));
}

}  // namespace strobe::wire
