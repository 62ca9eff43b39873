#include "collector/trace/xplane/wire.h"

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

TEST(Wire, ReadsRepeatedIntegersPackedOrNot) {
  std::string packed, out;
  AppendVarint(300, packed);
  AppendVarint(static_cast<std::uint64_t>(-5), packed);
  AppendVarintField(1, 7, out);
  AppendBytesField(1, packed, out);
  AppendBytesField(1, "", out);
  std::vector<std::int64_t> values;
  Reader reader(out);
  while (reader.Next()) EXPECT_TRUE(reader.AppendIntegers(values).ok());
  EXPECT_EQ(values, (std::vector<std::int64_t>{7, 300, -5}));
  for (const std::string& broken : {std::string("\x80"), std::string(11, '\x80')}) {
    out.clear();
    AppendBytesField(1, broken, out);
    Reader other(out);
    ASSERT_TRUE(other.Next());
    EXPECT_EQ(other.AppendIntegers(values).code(), absl::StatusCode::kDataLoss);
  }
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
