#include "common/text/json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>

namespace strobe {
namespace {

using Json = nlohmann::json;

Json RandomValue(std::mt19937& random, int depth) {
  switch (random() % (depth > 4 ? 5 : 8)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return -static_cast<int>(random() % 1000);
    case 3:
      return static_cast<double>(random()) / 7.0;
    case 4:
      return "\"\\ü{}[]" + std::to_string(random() % 100);
    case 5:
    case 6: {
      Json list = Json::array();
      for (std::size_t i = random() % 4; i > 0; --i) list.push_back(RandomValue(random, depth + 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (std::size_t i = random() % 4; i > 0; --i)
        object["m" + std::to_string(random() % 6)] = RandomValue(random, depth + 1);
      return object;
    }
  }
}

// The value without the members of this name, wherever they are.
Json Without(const std::string& name, Json value) {
  if (value.is_object()) value.erase(name);
  if (value.is_structured())
    for (Json& member : value) member = Without(name, std::move(member));
  return value;
}

TEST(ReadJson, ReadsWhatTheLibraryItselfReads) {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const Json value = RandomValue(random, 0);
    const std::string text = value.dump(static_cast<int>(random() % 3) - 1);
    ASSERT_EQ(ReadJson(text), Json::parse(text)) << text;
    ASSERT_EQ(ReadJson<nlohmann::ordered_json>(text), nlohmann::ordered_json::parse(text)) << text;
    const Json kept = ReadJson(
        text, {.keep = [](const std::vector<std::string>& path) { return path.back() != "m3"; }});
    ASSERT_EQ(kept, Without("m3", value)) << text;
    // Whatever is cut off, the library agrees about what is left.
    const std::string cut = text.substr(0, random() % (text.size() + 1));
    ASSERT_EQ(ReadJson(cut).is_discarded(), Json::parse(cut, nullptr, false).is_discarded()) << cut;
  }
}

TEST(ReadJson, TellsTheNamesOnTheWay) {
  std::vector<std::vector<std::string>> paths;
  ReadJson(R"({"a": {"b": [1, {"c": {}}]}, "d": 2})",
           {.keep = [&](const std::vector<std::string>& path) {
             paths.push_back(path);
             return true;
           }});
  EXPECT_EQ(paths,
            (std::vector<std::vector<std::string>>{{"a"}, {"a", "b"}, {"a", "b", "", "c"}, {"d"}}));
}

TEST(ReadJson, WhatIsDeeperIsLeftOut) {
  EXPECT_EQ(ReadJson(R"({"a": {"b": {"c": [1]}, "d": [[2], 3]}, "e": 4})", {.max_depth = 2}),
            Json::parse(R"({"a": {}, "e": 4})"));
  EXPECT_EQ(ReadJson(R"([1, [2, [3]]])", {.max_depth = 2}), Json::parse(R"([1, [2]])"));
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(ReadJson(deep + std::string(deep.size(), ']'), {.max_depth = 1}), Json::array());
}

// The processor time of this thread. Unlike the time that passes, it is little more on a busy
// machine.
double SecondsFor(const std::string& text) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    timespec began{}, ended{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
    EXPECT_TRUE(ReadJson(text).is_object());
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    least = std::min(least, static_cast<double>(ended.tv_sec - began.tv_sec) +
                                static_cast<double>(ended.tv_nsec - began.tv_nsec) / 1e9);
  }
  return least;
}

std::string WithLabels(int count) {
  Json fields = Json::object();
  for (int i = 0; i < count; ++i) fields["f:" + std::to_string(i)] = Json::object();
  return Json{{"metadata", {{"managedFields", {{{"f:labels", fields}}}}}}}.dump();
}

// Regression: with a parser's callback, 20,000 labels took 1.4 s, and twice as many four times as
// long.
TEST(ReadJson, SixteenTimesAsManyObjectsTakeAboutSixteenTimesAsLong) {
  const double few = SecondsFor(WithLabels(2'000)), many = SecondsFor(WithLabels(32'000));
  EXPECT_LT(many, 80 * few) << "it was 256 times as long";
}

TEST(ReadJson, BoundsTheValues) {
  const std::string text = R"({"a": [1, 2, {"b": 3}]})";
  EXPECT_FALSE(ReadJson(text, {.max_values = 6}).is_discarded());
  EXPECT_TRUE(ReadJson(text, {.max_values = 5}).is_discarded());
  EXPECT_FALSE(ReadJson(text, {.max_depth = 1, .max_values = 1}).is_discarded())
      << "those left out do not count";
}

}  // namespace
}  // namespace strobe
