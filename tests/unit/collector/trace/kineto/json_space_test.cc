#include "collector/trace/kineto/json_space.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace strobe::kineto {
namespace {

std::string Even(std::string_view json) {
  std::string even;
  AppendEvenlySpaced(json, even);
  EXPECT_TRUE(IsEvenlySpaced(even)) << json;
  EXPECT_EQ(IsEvenlySpaced(json), even == json) << json;
  EXPECT_LE(even.size(), 2 * json.size());
  return even;
}

// The right sides are what Python's json.dumps(json.loads(left)) gives.
TEST(JsonSpace, IsAsPythonWritesIt) {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"[]", "[]"},
      {"[ \n ]\n  ", "[]"},
      {"{ }", "{}"},
      {"[2,4,64]", "[2, 4, 64]"},
      {"[2, 4, 64]", "[2, 4, 64]"},
      {"[\n  2,\n  4 ,\t64\r\n]", "[2, 4, 64]"},
      {"[[8,16],[[]],{}]", "[[8, 16], [[]], {}]"},
      {R"({"a":{"b" :[1,"c , d : [  ]"]},"e":null})",
       R"({"a": {"b": [1, "c , d : [  ]"]}, "e": null})"},
      {R"(["quote \" , x","back\\" ,"y"])", R"(["quote \" , x", "back\\", "y"])"},
  };
  for (const auto& [json, even] : kCases) EXPECT_EQ(Even(json), even);
}

TEST(JsonSpace, DamagedJsonKeepsItsValuesApart) {
  for (const std::string_view json : {"[1 2]", "[1\n\t2]"}) {
    std::string even;
    AppendEvenlySpaced(json, even);
    EXPECT_EQ(even, "[1 2]");
  }
  for (const std::string_view json : {"", "[\"", "[\"\\", "{\"a\":", "]", ",", " "}) {
    std::string even;
    AppendEvenlySpaced(json, even);
    EXPECT_LE(even.size(), 2 * json.size());
    (void)IsEvenlySpaced(json);
  }
}

}  // namespace
}  // namespace strobe::kineto
