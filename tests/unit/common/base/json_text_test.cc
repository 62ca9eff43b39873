#include "common/base/json_text.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

TEST(JsonText, IsOneLineUnlessAskedOtherwise) {
  const nlohmann::ordered_json value = {{"b", 1}, {"a", {true}}};
  EXPECT_EQ(JsonText(value), R"({"b":1,"a":[true]})");
  EXPECT_EQ(JsonText(value["a"], 2), "[\n  true\n]");
  EXPECT_EQ(JsonText({{"b", 1}, {"a", 2}}), R"({"a":2,"b":1})") << "the type is nlohmann::json";
}

TEST(JsonText, ReplacesInvalidUtf8) {
  EXPECT_EQ(JsonText(nlohmann::json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace strobe
