#include "agent/evidence/python_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

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

}  // namespace
}  // namespace strobe::agent
