#include "agent/evidence/utf8_text.h"

#include <gtest/gtest.h>

namespace strobe::agent {
namespace {

std::string Wide(std::u32string_view text, int width) {
  std::string bytes;
  for (const char32_t character : text)
    bytes.append(reinterpret_cast<const char*>(&character), static_cast<std::size_t>(width));
  return bytes;
}

TEST(Utf8Text, HasTheCharactersOfEachWidth) {
  EXPECT_EQ(Utf8Of("train.py", 1), "train.py");
  EXPECT_EQ(Utf8Of("\xe4", 1), "\xc3\xa4") << "Latin-1";
  EXPECT_EQ(Utf8Of(Wide(U"a\u20ac", 2), 2), "a\xe2\x82\xac");
  EXPECT_EQ(Utf8Of(Wide(U"\U0001f600", 4), 4), "\xf0\x9f\x98\x80");
}

TEST(Utf8Text, HasNoControlsAndNoHalves) {
  EXPECT_EQ(Utf8Of("a\nb\x7f", 1), "a?b?");
  EXPECT_EQ(Utf8Of(Wide(U"\xd800", 2), 2), "?");
  EXPECT_EQ(Utf8Of(Wide(U"\x7fffffff", 4), 4), "?");
  EXPECT_EQ(Utf8Of("abc", 2).size(), Utf8Of("ab", 2).size()) << "an odd end is left out";
}

}  // namespace
}  // namespace strobe::agent
