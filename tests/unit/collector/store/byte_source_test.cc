#include "collector/store/byte_source.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace strobe::storage {
namespace {

TEST(MemoryBytes, ReadsAcrossPieces) {
  const std::array<std::string_view, 4> pieces = {"abc", "", "de", "f"};
  const MemoryBytes bytes(pieces);
  ASSERT_EQ(bytes.size(), 6u);
  for (std::size_t from = 0; from <= 6; ++from) {
    for (std::size_t size = 0; from + size <= 6; ++size) {
      std::string into(size, '?');
      EXPECT_TRUE(bytes.Read(from, into).ok());
      EXPECT_EQ(into, std::string("abcdef").substr(from, size));
    }
  }
  std::string beyond(2, '?');
  EXPECT_FALSE(bytes.Read(5, beyond).ok());
}

}  // namespace
}  // namespace strobe::storage
