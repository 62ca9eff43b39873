#include "agent/evidence/python_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fakes/fake_python.h"

namespace strobe::agent {
namespace {

// _Py_DebugOffsets in which each word is its own place, but for what the reader checks.
FakePython DebugMemory(std::uint64_t version) {
  FakePython python;
  std::array<std::uint64_t, 96> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i;
  std::memcpy(words.data(), "xdebugpy", 8);
  words[1] = version;
  words[2] = 0;
  python.bytes().resize(1024);
  std::memcpy(python.bytes().data(), words.data(), sizeof words);
  return python;
}

TEST(PythonLayout, KnowsTheVersionsFrom9To12) {
  const FakePython python;
  for (const int minor : {9, 10, 11, 12}) {
    const auto layout = LayoutOf(python, FakePython::kBegin, minor);
    ASSERT_TRUE(layout) << minor;
    EXPECT_EQ(layout->minor, minor);
    EXPECT_EQ(layout->gil_in_runtime >= 0, minor < 12);
    EXPECT_EQ(layout->native_id >= 0, minor > 10);
    EXPECT_LE(layout->frame_bytes, kMaxFrameBytes);
    EXPECT_LE(layout->code_bytes, kMaxCodeBytes);
  }
}

// The places are those of CPython's Include/internal/pycore_debug_offsets.h, counted in words.
TEST(PythonLayout, ReadsWhat13Tells) {
  const auto layout = LayoutOf(DebugMemory(0x030d00f0), FakePython::kBegin, 13);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->interpreters, 5);
  EXPECT_EQ(layout->threads, 9);
  EXPECT_EQ(layout->gil_in_interpreter, 14);
  EXPECT_EQ(layout->gil_locked, 17 - 15);
  EXPECT_EQ(layout->frame, 23);
  EXPECT_EQ(layout->native_id, 25);
  EXPECT_EQ(layout->frame_instruction, 31);
  EXPECT_EQ(layout->code_bytecode, 43);
  EXPECT_EQ(layout->text_other, 70 + 16);
  EXPECT_EQ(layout->code_mask, ~std::uint64_t{0});
}

TEST(PythonLayout, ReadsWhat14Tells) {
  const auto layout = LayoutOf(DebugMemory(0x030e00f0), FakePython::kBegin, 14);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->gil_in_interpreter, 15);
  EXPECT_EQ(layout->gil_holder, 19 - 16);
  EXPECT_EQ(layout->frame, 26);
  EXPECT_EQ(layout->frame_owner, 36);
  EXPECT_EQ(layout->code_file, 40);
  EXPECT_EQ(layout->code_bytecode, 48);
  EXPECT_EQ(layout->text_ascii, 80);
  EXPECT_EQ(layout->code_mask, ~std::uint64_t{3});
}

TEST(PythonLayout, RefusesWhatItDoesNotKnow) {
  const FakePython none;
  for (const int minor : {0, 8, 13, 14, 15, 99}) {
    EXPECT_FALSE(LayoutOf(none, FakePython::kBegin, minor)) << minor;
  }
  EXPECT_FALSE(LayoutOf(DebugMemory(0x030e00f0), FakePython::kBegin, 13)) << "another version";
  EXPECT_FALSE(LayoutOf(DebugMemory(0x030d00f0), 7, 13)) << "no memory";
  FakePython free_threaded = DebugMemory(0x030d00f0);
  free_threaded.bytes()[16] = 1;
  EXPECT_FALSE(LayoutOf(free_threaded, FakePython::kBegin, 13));
  FakePython far = DebugMemory(0x030d00f0);
  far.Put(FakePython::kBegin + 31 * 8, 1 << 16);
  EXPECT_FALSE(LayoutOf(far, FakePython::kBegin, 13)) << "no frame is that large";
}

std::vector<std::uint8_t> FromHexText(std::string_view text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(
        static_cast<std::uint8_t>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

struct Compiled {
  int minor;
  std::string_view table;
  std::vector<int> lines;  // One for each instruction; -1 is none.
};

// A function with a comprehension, a try and a with, compiled by five versions of CPython. The
// lines are those of its co_lines(), and for 3.9 of dis.findlinestarts().
const std::vector<Compiled>& CompiledFunctions() {
  static const auto& all = *new std::vector<Compiled>{
      {9,
       "0002060106ff06020201040102ff06030c0208010401020102ff3002",
       {3,  3,  3,  4,  4,  4,  3,  3,  3,  5,  6,  6,  7,  6,  6,  6,  9,  9,  9,
        9,  9,  9,  11, 11, 11, 11, 12, 12, 13, 14, 13, 13, 13, 13, 13, 13, 13, 13,
        13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 15, 15}},
      {10,
       "0602060106ff02020401020106ff0c03080204010201020102ff10fe02010aff040410fc0404",
       {3,  3,  3,  4,  4,  4,  3,  3,  3,  5,  6,  6,  7,  6,  6,  6,  9,  9,  9,
        9,  9,  9,  11, 11, 11, 11, 12, 12, 13, 14, 13, 11, 11, 11, 11, 11, 11, 11,
        11, 12, 11, 11, 11, 11, 11, 15, 15, 11, 11, 11, 11, 11, 11, 11, 11, 15, 15}},
      {11,
       "8000f00401091cf00001091cdd1217980191289428f00301091cf10001091cf40001091c8041f00404050edd0c"
       "0d8861d80e0ff103010d11f400010d118801f006000d0e88018801f8884188018805880588058805e5090a8913"
       "8c13f0000305179001d80b0cf000020917d81415d81415f103011516f005030517f000030517f000030517f000"
       "030517f100030517f400030517f000030517f000030517f002020917f003030517f000030517f000030517f100"
       "030517f400030517f000030517f000030517f000030517f000030517f000030517f000030517f8f8f8f0000305"
       "17f000030517f000030517f000030517f008000c0d8048",
       {1,  3,  3,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  3,  3,  3,  3,  3,  3,
        3,  3,  3,  5,  6,  6,  6,  6,  6,  6,  6,  7,  6,  6,  6,  6,  6,  6,  6,  6,  9,  9,  9,
        -1, 9,  9,  9,  9,  9,  9,  11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 12,
        12, 13, 14, 13, 13, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 12, 11, 11, 11, 11,
        11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, -1, -1, -1, 11, 11, 11, 11, 15, 15}},
      {12,
       "8000f40600131898019328f60301091cd80d0ef203000a0bf00001091c8041f00001091cf00404050edc0c0d88"
       "61d80e0ff303010d118801f006000d0e8801e4090a8b13f0000305179001d90b0cd81415d81415f103011516f7"
       "05030517f100030517d80b0cf703030517f008000c0d8048f9f21901091cf8f00c000d0e8901faf704030517f0"
       "08000c0d8048fa",
       {1,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  3,  3,  3,  3,  3,  3,  3,  4,  3,  3,
        3,  3,  3,  3,  5,  6,  6,  6,  6,  6,  6,  7,  6,  6,  6,  6,  6,  9,  9,  11, 11,
        11, 11, 11, 11, 11, 11, 11, 11, 11, 12, 12, 13, 14, 13, 13, 11, 11, 11, 11, 11, 11,
        11, 11, 11, 11, 12, 11, 11, 11, 11, 11, 11, 11, 11, 15, 15, -1, -1, 3,  3,  3,  -1,
        9,  9,  9,  -1, -1, -1, 11, 11, 11, 11, 11, 11, 11, 11, 15, 15, -1, -1, -1}},
      {13,
       "8000f40600131898019428f30301091cd9121a8851f303000a0bd9121af003000506f00001091cf00404050edc"
       "0c0d8861d80e0ff303010d118801f006000d0e8801e4090a8c139001de0b0cd81415d81415f103011516f70500"
       "0a0d8913d80b0cf703000a0df008000c0d8048f9f21901091cf8f00c000d0e8901fae7090c8c13f008000c0d80"
       "48fa",
       {1,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  4,  3,  3,  3,  3,  4,  4,  4,  3,  3,  3,  3,
        4,  4,  3,  3,  5,  6,  6,  6,  6,  6,  6,  7,  6,  6,  6,  6,  6,  9,  9,  11, 11, 11, 11,
        11, 11, 11, 11, 11, 11, 11, 12, 12, 12, 12, 12, 12, 12, 13, 14, 13, 13, 11, 11, 11, 11, 11,
        11, 11, 11, 11, 11, 12, 11, 11, 11, 11, 11, 11, 11, 11, 15, 15, -1, -1, 3,  3,  3,  -1, 9,
        9,  9,  -1, -1, -1, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 15, 15, -1}}};
  return all;
}

TEST(LineTable, AgreesWithCPython) {
  for (const Compiled& compiled : CompiledFunctions()) {
    const std::vector<std::uint8_t> table = FromHexText(compiled.table);
    for (std::size_t i = 0; i < compiled.lines.size(); ++i)
      EXPECT_EQ(LineOf(compiled.minor, table, 1, static_cast<std::int64_t>(2 * i)),
                compiled.lines[i])
          << "3." << compiled.minor << ", instruction " << i;
  }
}

TEST(LineTable, HasNoLineBehindItsEnd) {
  for (const Compiled& compiled : CompiledFunctions()) {
    if (compiled.minor == 9) continue;  // There the last line goes on.
    EXPECT_EQ(LineOf(compiled.minor, FromHexText(compiled.table), 1, 100'000), -1);
  }
}

TEST(LineTable, EndsWithAnyBytes) {
  std::vector<std::uint8_t> bytes(300);
  for (unsigned seed = 1; seed < 2000; ++seed) {
    unsigned state = seed;
    for (std::uint8_t& byte : bytes) {
      state = state * 1664525u + 1013904223u;
      byte = static_cast<std::uint8_t>(state >> 24);
    }
    for (const int minor : {9, 10, 11, 14}) {
      for (const std::int64_t offset : {-4, 0, 40, 1 << 30})
        LineOf(minor, bytes, static_cast<int>(seed), offset);
    }
  }
  EXPECT_EQ(LineOf(11, bytes, -7, 0), -1);
}

}  // namespace
}  // namespace strobe::agent
