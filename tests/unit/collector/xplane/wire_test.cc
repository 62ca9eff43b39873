#include "collector/xplane/wire.h"

#include <gtest/gtest.h>

#include <random>

namespace strobe::wire {
namespace {

TEST(Wire, ReadsWhatItWrote) {
  std::string out;
  AppendVarintField(1, 300, out);
  AppendBytesField(2, "name", out);
  AppendVarintField(3, static_cast<std::uint64_t>(-5), out);
  AppendDoubleField(4, 1.5, out);
  Reader reader(out);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.field(), 1u);
  EXPECT_EQ(reader.value(), 300u);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.bytes(), "name");
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.signed_value(), -5);
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.field(), 4u);
  EXPECT_FALSE(reader.Next());
  EXPECT_TRUE(reader.status().ok());
}

TEST(Wire, RefusesEveryCutAndSaysWhere) {
  std::string out;
  AppendVarintField(1, 1u << 30, out);
  AppendBytesField(2, std::string(200, 'x'), out);
  AppendDoubleField(3, 1, out);
  std::size_t whole = 0;
  for (std::size_t size = 0; size < out.size(); ++size) {
    Reader reader(std::string_view(out).substr(0, size));
    while (reader.Next()) {
    }
    whole += reader.status().ok() ? 1 : 0;
  }
  EXPECT_EQ(whole, 3u) << "only cuts between two fields are whole messages";
}

TEST(Wire, RefusesLengthsPastTheEnd) {
  Reader reader(std::string_view("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", 12));
  EXPECT_FALSE(reader.Next());
  EXPECT_FALSE(reader.status().ok());
}

TEST(Wire, SurvivesNoise) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string noise(random() % 40, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    Reader reader(noise);
    while (reader.Next()) EXPECT_LE(reader.bytes().size(), noise.size());
  }
}

}  // namespace
}  // namespace strobe::wire
