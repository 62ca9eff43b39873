#include "agent/evidence/line_table.h"

#include <cstddef>

namespace strobe::agent {
namespace {

using Bytes = std::span<const std::uint8_t>;

int Line9(Bytes table, int line, std::int64_t offset) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    at += table[i];
    if (at > offset) break;
    line += static_cast<std::int8_t>(table[i + 1]);
  }
  return line;
}

int Line10(Bytes table, int line, std::int64_t offset) {
  constexpr std::int8_t kNone = -128;
  std::int64_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto delta = static_cast<std::int8_t>(table[i + 1]);
    if (delta != kNone) line += delta;
    end += table[i];
    if (offset < end) return delta == kNone ? -1 : line;
  }
  return -1;
}

// The entries of co_linetable since 3.11; see Objects/locations.md of CPython.
class Locations {
 public:
  explicit Locations(Bytes table) : table_(table) {}

  int Line(int line, std::int64_t offset) {
    if (offset < 0) return line;
    std::int64_t end = 0;
    while (at_ < table_.size()) {
      const std::uint8_t head = table_[at_++];
      const int kind = head >> 3 & 15;
      const bool has_line = kind != kNoLocation;
      line = static_cast<int>(static_cast<unsigned>(line) + static_cast<unsigned>(Advance(kind)));
      end += ((head & 7) + 1) * std::int64_t{2};
      if (offset < end) return has_line ? line : -1;
    }
    return -1;
  }

 private:
  static constexpr int kOneLine = 10, kNoColumns = 13, kLong = 14, kNoLocation = 15;

  // Reads the rest of the entry, and returns by how many lines it is further.
  int Advance(int kind) {
    if (kind == kNoLocation) return 0;
    if (kind == kNoColumns) return Signed();
    if (kind == kLong) {
      const int lines = Signed();
      for (int i = 0; i < 3; ++i) Number();  // The end's line and both columns.
      return lines;
    }
    at_ += kind >= kOneLine ? 2 : 1;
    return kind >= kOneLine ? kind - kOneLine : 0;
  }

  unsigned Number() {
    unsigned value = 0;
    for (unsigned shift = 0; at_ < table_.size(); shift += 6) {
      const std::uint8_t byte = table_[at_++];
      if (shift < 32) value |= static_cast<unsigned>(byte & 63) << shift;
      if ((byte & 64) == 0) break;
    }
    return value;
  }

  int Signed() {
    const unsigned value = Number();
    const auto magnitude = static_cast<int>(value >> 1);
    return (value & 1) != 0 ? -magnitude : magnitude;
  }

  const Bytes table_;
  std::size_t at_ = 0;
};

}  // namespace

int LineOf(int minor, std::span<const std::uint8_t> table, int first_line, std::int64_t offset) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // Keeps sums of lines small.
  constexpr int kMostLines = 1 << 28;
  if (table.size() > kMostBytes || first_line < 0 || first_line > kMostLines) return -1;
  if (minor == 9) return Line9(table, first_line, offset);
  if (minor == 10) return Line10(table, first_line, offset);
  return Locations(table).Line(first_line, offset);
}

}  // namespace strobe::agent
