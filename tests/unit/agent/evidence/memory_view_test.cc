#include "agent/evidence/memory_view.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>

namespace strobe::agent {
namespace {

TEST(OwnMemory, ReadsWhatIsThereAndFailsElsewhere) {
  const OwnMemory memory;
  const std::uint64_t there = 0x1234567;
  std::uint64_t read = 0;
  EXPECT_TRUE(memory.Get(reinterpret_cast<std::uint64_t>(&there), read));
  EXPECT_EQ(read, there);
  EXPECT_FALSE(memory.Get(0, read));
  EXPECT_FALSE(memory.Get(8, read));
  EXPECT_FALSE(memory.Get(~std::uint64_t{0} - 3, read));
}

TEST(OwnMemory, FailsAtTheEndOfAMapping) {
  constexpr std::size_t kPage = 4096;
  void* const pages = mmap(nullptr, 2 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(munmap(static_cast<char*>(pages) + kPage, kPage), 0);
  const OwnMemory memory;
  std::array<char, 64> bytes{};
  const std::uint64_t end = reinterpret_cast<std::uint64_t>(pages) + kPage;
  EXPECT_TRUE(memory.Read(end - 64, bytes.data(), 64));
  EXPECT_FALSE(memory.Read(end - 63, bytes.data(), 64));
  munmap(pages, kPage);
}

}  // namespace
}  // namespace strobe::agent
