// A radix sort of many small records by a 64-bit key, in place and on several threads.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/parallel.h"

namespace strobe::index {
namespace internal {

constexpr unsigned kDigitBits = 8;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

// Where the records of each digit begin; the last entry is the number of records.
template <typename T, typename Key>
std::array<std::size_t, kDigits + 1> DigitBegins(std::span<const T> records, unsigned shift,
                                                 const Key& key) {
  std::array<std::size_t, kDigits + 1> begins{};
  for (const T& record : records) ++begins[(key(record) >> shift) % kDigits + 1];
  for (std::size_t i = 0; i < kDigits; ++i) begins[i + 1] += begins[i];
  return begins;
}

// Sorts by the lowest `bits` bits of the key, digit by digit, from the lowest digit on. Needs room
// for a copy of the records.
template <typename T, typename Key>
void SortLowBits(std::span<T> records, unsigned bits, const Key& key) {
  constexpr std::size_t kFew = 64;
  if (records.size() <= kFew) {
    std::stable_sort(records.begin(), records.end(),
                     [&](const T& a, const T& b) { return key(a) < key(b); });
    return;
  }
  // Kept for the thread's next call, and freed when the thread ends.
  thread_local std::vector<T> room;
  if (room.size() < records.size()) room.resize(records.size());
  std::span<T> from = records, to = std::span(room).first(records.size());
  for (unsigned shift = 0; shift < bits; shift += kDigitBits) {
    std::array<std::size_t, kDigits + 1> at = DigitBegins<T>(from, shift, key);
    for (const T& record : from) to[at[(key(record) >> shift) % kDigits]++] = record;
    std::swap(from, to);
  }
  if (from.data() != records.data()) std::copy(from.begin(), from.end(), records.begin());
}

}  // namespace internal

// Sorts by `key(record)`, an unsigned 64-bit number. The order of records with the same key is not
// specified, but it is always the same for the same input.
template <typename T, typename Key>
void SortByKey(std::vector<T>& records, std::size_t threads, const Key& key) {
  std::uint64_t differ = 0;
  bool sorted = true;
  for (std::size_t i = 0; i < records.size(); ++i) {
    differ |= key(records[i]) ^ key(records.front());
    sorted = sorted && (i == 0 || key(records[i - 1]) <= key(records[i]));
  }
  if (sorted) return;
  const auto bits = static_cast<unsigned>(std::bit_width(differ));
  if (bits == 0) return;
  // First by the highest digit that differs. Each record is swapped into its digit's part, which
  // needs no room; then the parts are sorted in parallel.
  const unsigned shift = bits > internal::kDigitBits ? bits - internal::kDigitBits : 0;
  const auto begins = internal::DigitBegins<T>(records, shift, key);
  auto next = begins;
  for (std::size_t digit = 0; digit < internal::kDigits; ++digit) {
    while (next[digit] < begins[digit + 1]) {
      const std::size_t home = (key(records[next[digit]]) >> shift) % internal::kDigits;
      if (home == digit)
        ++next[digit];
      else
        std::swap(records[next[digit]], records[next[home]++]);
    }
  }
  ParallelFor(internal::kDigits, threads, [&](std::size_t digit) {
    internal::SortLowBits(
        std::span(records).subspan(begins[digit], begins[digit + 1] - begins[digit]), shift, key);
  });
}

}  // namespace strobe::index
