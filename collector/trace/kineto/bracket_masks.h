// Finds quotes and brackets in 64 bytes of JSON at once, one bit per byte.
#pragma once
#include <cstdint>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace strobe::kineto {

struct BracketMasks {
  std::uint64_t quotes = 0, backslashes = 0;
  // `opens` has a bit for each '{' or '[', `closes` for each '}' or ']'.
  std::uint64_t opens = 0, closes = 0;
};

#ifdef __SSE2__
inline BracketMasks FindBrackets(const char* at) {
  BracketMasks masks;
  for (unsigned i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + i);
    const auto equal = [i](__m128i left, char right) {
      const int bits = _mm_movemask_epi8(_mm_cmpeq_epi8(left, _mm_set1_epi8(right)));
      return static_cast<std::uint64_t>(static_cast<unsigned>(bits)) << 16 * i;
    };
    masks.quotes |= equal(bytes, '"');
    masks.backslashes |= equal(bytes, '\\');
    // Bit 5 is the only difference between [ and {, and between ] and }.
    const __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    masks.opens |= equal(folded, '{');
    masks.closes |= equal(folded, '}');
  }
  return masks;
}
#else
inline BracketMasks FindBrackets(const char* at) {
  BracketMasks masks;
  for (unsigned i = 0; i < 64; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    if (at[i] == '"') masks.quotes |= bit;
    if (at[i] == '\\') masks.backslashes |= bit;
    if ((at[i] | 0x20) == '{') masks.opens |= bit;
    if ((at[i] | 0x20) == '}') masks.closes |= bit;
  }
  return masks;
}
#endif

// Tracks, over consecutive blocks, what is inside of strings.
class StringState {
 public:
  // The bytes of the block that are inside a string, with its opening quote and without its closing
  // one.
  std::uint64_t InString(const BracketMasks& masks) {
    const std::uint64_t escaped =
        (masks.backslashes | carry_) == 0 ? 0 : Escaped(masks.backslashes);
    std::uint64_t inside = masks.quotes & ~escaped;
    // Each bit becomes the parity of the quotes up to it.
    for (unsigned shift = 1; shift < 64; shift *= 2) inside ^= inside << shift;
    inside ^= 0 - static_cast<std::uint64_t>(in_string_);
    in_string_ = inside >> 63 != 0;
    return inside;
  }

 private:
  // The bytes that follow a backslash which is not escaped itself.
  std::uint64_t Escaped(std::uint64_t backslashes) {
    std::uint64_t escaped = carry_;
    carry_ = 0;
    for (; backslashes != 0; backslashes &= backslashes - 1) {
      const std::uint64_t bit = backslashes & (0 - backslashes);
      if ((escaped & bit) != 0) continue;
      if (bit >> 63 != 0) carry_ = 1;
      escaped |= bit << 1;
    }
    return escaped;
  }

  bool in_string_ = false;
  std::uint64_t carry_ = 0;  // 1 if the next block's first byte is escaped.
};

}  // namespace strobe::kineto
