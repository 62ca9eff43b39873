#include "agent/evidence/python_layout.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace strobe::agent {

namespace {

PythonLayout Layout9() {
  PythonLayout layout;
  layout.minor = 9;
  layout.interpreters = 32;
  layout.gil_in_runtime = 352;
  layout.gil_holder = 8;
  layout.gil_locked = 16;
  layout.interpreter_next = 0;
  layout.threads = 8;
  layout.thread_next = 8;
  layout.thread_id = 176;
  layout.frame = 24;
  layout.frame_previous = 24;
  layout.frame_code = 32;
  layout.frame_instruction = 104;
  layout.frame_bytes = 112;
  layout.instruction = Instruction::kByteIndex;
  layout.code_first_line = 40;
  layout.code_file = 104;
  layout.code_name = 112;
  layout.code_lines = 120;
  layout.code_bytes = 128;
  return layout;
}

PythonLayout Layout10() {
  PythonLayout layout = Layout9();
  layout.minor = 10;
  layout.frame_instruction = 96;
  layout.frame_line = 100;
  layout.frame_bytes = 104;
  layout.instruction = Instruction::kUnitIndex;
  return layout;
}

PythonLayout Layout11() {
  PythonLayout layout = Layout9();
  layout.minor = 11;
  layout.interpreters = 40;
  layout.gil_in_runtime = 360;
  layout.threads = 16;
  layout.thread_id = 152;
  layout.native_id = 160;
  layout.call_frame = 56;
  layout.frame = 8;
  layout.frame_previous = 48;
  layout.frame_code = 32;
  layout.frame_instruction = 56;
  layout.frame_owner = 69;
  layout.frame_bytes = 80;
  layout.instruction = Instruction::kPointer;
  layout.code_first_line = 72;
  layout.code_file = 112;
  layout.code_name = 128;
  layout.code_lines = 136;
  layout.code_bytecode = 184;
  layout.code_bytes = 184;
  return layout;
}

PythonLayout Layout12() {
  PythonLayout layout = Layout11();
  layout.minor = 12;
  layout.gil_in_runtime = -1;
  layout.gil_in_interpreter = 384;
  layout.threads = 72;
  layout.thread_id = 136;
  layout.native_id = 144;
  layout.frame = 0;
  layout.frame_previous = 8;
  layout.frame_code = 0;
  layout.frame_owner = 70;
  layout.code_first_line = 68;
  layout.code_bytecode = 192;
  layout.text_ascii = 40;
  layout.text_other = 56;
  return layout;
}

// _Py_DebugOffsets begins with these bytes, the version and whether the build has no lock.
constexpr char kCookie[] = "xdebugpy";
constexpr std::size_t kDebugWords = 88;
using DebugWords = std::array<std::uint64_t, kDebugWords>;

// The places of the words in _Py_DebugOffsets. 3.14 has more of them in between.
struct DebugWordIndex {
  std::size_t interpreters, interpreter_next, threads, gil_pointer, gil, gil_locked, gil_holder,
      thread_next, frame, thread_id, native_id, frame_previous, frame_code, frame_instruction,
      frame_owner, code_file, code_name, code_lines, code_first_line, code_bytecode, type,
      bytes_size, bytes_data, text_state, text_length, text_ascii;
};

constexpr DebugWordIndex kWordIndex13 = {.interpreters = 5,
                                         .interpreter_next = 8,
                                         .threads = 9,
                                         .gil_pointer = 14,
                                         .gil = 15,
                                         .gil_locked = 17,
                                         .gil_holder = 18,
                                         .thread_next = 21,
                                         .frame = 23,
                                         .thread_id = 24,
                                         .native_id = 25,
                                         .frame_previous = 29,
                                         .frame_code = 30,
                                         .frame_instruction = 31,
                                         .frame_owner = 33,
                                         .code_file = 35,
                                         .code_name = 37,
                                         .code_lines = 38,
                                         .code_first_line = 39,
                                         .code_bytecode = 43,
                                         .type = 45,
                                         .bytes_size = 65,
                                         .bytes_data = 66,
                                         .text_state = 68,
                                         .text_length = 69,
                                         .text_ascii = 70};

constexpr DebugWordIndex kWordIndex14 = {.interpreters = 5,
                                         .interpreter_next = 8,
                                         .threads = 9,
                                         .gil_pointer = 15,
                                         .gil = 16,
                                         .gil_locked = 18,
                                         .gil_holder = 19,
                                         .thread_next = 24,
                                         .frame = 26,
                                         .thread_id = 27,
                                         .native_id = 28,
                                         .frame_previous = 32,
                                         .frame_code = 33,
                                         .frame_instruction = 34,
                                         .frame_owner = 36,
                                         .code_file = 40,
                                         .code_name = 42,
                                         .code_lines = 43,
                                         .code_first_line = 44,
                                         .code_bytecode = 48,
                                         .type = 51,
                                         .bytes_size = 75,
                                         .bytes_data = 76,
                                         .text_state = 78,
                                         .text_length = 79,
                                         .text_ascii = 80};

// An offset that must be within `most`; none otherwise.
class Offsets {
 public:
  explicit Offsets(const DebugWords& words) : words_(words) {}

  int At(std::size_t place, std::uint64_t most) {
    const std::uint64_t offset = words_[place];
    fits_ = fits_ && offset <= most;
    return offset <= most ? static_cast<int>(offset) : 0;
  }
  bool fits() const { return fits_; }

 private:
  const DebugWords& words_;
  bool fits_ = true;
};

std::optional<PythonLayout> FromDebugWords(const DebugWords& words, const DebugWordIndex& places,
                                           int minor) {
  constexpr std::uint64_t kFarthest = 1 << 20, kInObject = 256;
  constexpr std::uint64_t kInFrame = kMaxFrameBytes - 8, kInCode = kMaxCodeBytes - 8;
  Offsets offsets(words);
  PythonLayout layout;
  layout.minor = minor;
  layout.interpreters = offsets.At(places.interpreters, kFarthest);
  layout.gil_in_interpreter = offsets.At(places.gil_pointer, kFarthest);
  const int gil = offsets.At(places.gil, kFarthest);
  layout.gil_locked = offsets.At(places.gil_locked, kFarthest) - gil;
  layout.gil_holder = offsets.At(places.gil_holder, kFarthest) - gil;
  layout.interpreter_next = offsets.At(places.interpreter_next, kFarthest);
  layout.threads = offsets.At(places.threads, kFarthest);
  layout.thread_next = offsets.At(places.thread_next, kFarthest);
  layout.thread_id = offsets.At(places.thread_id, kFarthest);
  layout.native_id = offsets.At(places.native_id, kFarthest);
  layout.frame = offsets.At(places.frame, kFarthest);
  layout.frame_previous = offsets.At(places.frame_previous, kInFrame);
  layout.frame_code = offsets.At(places.frame_code, kInFrame);
  layout.frame_instruction = offsets.At(places.frame_instruction, kInFrame);
  layout.frame_owner = offsets.At(places.frame_owner, kInFrame);
  layout.frame_bytes = 8 + std::max({layout.frame_previous, layout.frame_code,
                                     layout.frame_instruction, layout.frame_owner});
  layout.code_file = offsets.At(places.code_file, kInCode);
  layout.code_name = offsets.At(places.code_name, kInCode);
  layout.code_lines = offsets.At(places.code_lines, kInCode);
  layout.code_first_line = offsets.At(places.code_first_line, kInCode);
  layout.code_bytecode = offsets.At(places.code_bytecode, kInCode);
  layout.type = offsets.At(places.type, kInObject);
  layout.code_bytes = 8 + std::max({layout.code_file, layout.code_name, layout.code_lines,
                                    layout.code_first_line, layout.type});
  layout.bytes_size = offsets.At(places.bytes_size, kInObject);
  layout.bytes_data = offsets.At(places.bytes_data, kInObject);
  layout.text_state = offsets.At(places.text_state, kInObject);
  layout.text_length = offsets.At(places.text_length, kInObject);
  layout.text_ascii = offsets.At(places.text_ascii, kInObject);
  layout.text_other = layout.text_ascii + 16;
  const bool gil_fits = layout.gil_locked > 0 && layout.gil_holder > 0 && layout.gil_locked < 256 &&
                        layout.gil_holder < 256;
  if (!offsets.fits() || !gil_fits) return std::nullopt;
  // The two lowest bits of a reference are no part of the address.
  if (minor >= 14) layout.code_mask = ~std::uint64_t{3};
  return layout;
}

}  // namespace

std::optional<PythonLayout> LayoutOf(const MemoryView& memory, std::uint64_t runtime, int minor) {
  static_assert(sizeof(void*) == 8);
  switch (minor) {
    case 9:
      return Layout9();
    case 10:
      return Layout10();
    case 11:
      return Layout11();
    case 12:
      return Layout12();
    case 13:
    case 14:
      break;
    default:
      return std::nullopt;
  }
  DebugWords words{};
  if (!memory.Read(runtime, words.data(), sizeof words)) return std::nullopt;
  const bool is_known = std::memcmp(words.data(), kCookie, sizeof(std::uint64_t)) == 0 &&
                        words[1] >> 24 == 3 &&
                        (words[1] >> 16 & 0xff) == static_cast<std::uint64_t>(minor);
  const bool has_no_lock = words[2] != 0;
  if (!is_known || has_no_lock) return std::nullopt;
  return FromDebugWords(words, minor == 13 ? kWordIndex13 : kWordIndex14, minor);
}

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
