#include "agent/cupti/buffers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace strobe::agent {
namespace {

class BuffersTest : public testing::Test {
 protected:
  void TearDown() override { ForgetBuffers(); }
};

// Regression: a foreign buffer was written behind the end of the list of idle buffers.
TEST_F(BuffersTest, OnlyBuffersThatWereLentAreTakenBack) {
  std::vector<std::uint8_t*> lent;
  while (std::uint8_t* buffer = LendBuffer()) lent.push_back(buffer);
  ASSERT_EQ(lent.size(), kMaxBuffers);
  std::vector<std::uint8_t> foreign(64);
  for (int i = 0; i < 1000; ++i) ReturnBuffer(foreign.data());
  ReturnBuffer(nullptr);
  ReturnBuffer(lent[0] + 8);
  EXPECT_FALSE(IsLent(foreign.data()));
  EXPECT_EQ(LendBuffer(), nullptr) << "nothing came back";
  ReturnBuffer(lent[5]);
  ReturnBuffer(lent[5]);
  EXPECT_FALSE(IsLent(lent[5]));
  EXPECT_EQ(LendBuffer(), lent[5]);
  EXPECT_EQ(LendBuffer(), nullptr) << "twice is once";
}

TEST_F(BuffersTest, CountsEachLostBufferOnce) {
  std::uint8_t* empty = LendBuffer();
  std::uint8_t* filled = LendBuffer();
  ASSERT_TRUE(empty != nullptr && filled != nullptr);
  const std::uint32_t kind = 10;
  std::memcpy(filled, &kind, sizeof kind);
  EXPECT_EQ(CountLostBuffers(), 1u) << "nothing is lost with an empty one";
  EXPECT_EQ(CountLostBuffers(), 0u);
  ReturnBuffer(filled);
  EXPECT_EQ(LendBuffer(), filled);
  EXPECT_EQ(CountLostBuffers(), 0u) << "it is empty when it is lent again";
}

TEST_F(BuffersTest, AForkedChildTakesNothingOfItsParents) {
  std::uint8_t* parents = LendBuffer();
  ForgetBuffers();
  ReturnBuffer(parents);
  EXPECT_FALSE(IsLent(parents));
  EXPECT_NE(LendBuffer(), parents);
}

}  // namespace
}  // namespace strobe::agent
