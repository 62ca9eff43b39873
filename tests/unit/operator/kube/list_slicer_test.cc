#include "operator/kube/list_slicer.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>
#include <vector>

namespace strobe::kube {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Sliced {
  absl::Status status{};
  std::vector<std::string> items{};
  std::string rest{};
};

// Feeds the text in pieces of the given size.
Sliced Slice(const std::string& text, std::size_t size, std::size_t most = 1 << 20) {
  Sliced sliced;
  ListSlicer slicer(most);
  for (std::size_t at = 0; at < text.size() && sliced.status.ok(); at += size) {
    sliced.status = slicer.Feed(text.substr(at, size),
                                [&](std::string_view item) { sliced.items.emplace_back(item); });
  }
  sliced.rest = slicer.rest();
  return sliced;
}

TEST(ListSlicer, GivesTheItemsWhereverPiecesEnd) {
  const std::string text =
      R"({"kind": "items", "metadata": {"items": [{"not": 1}], "continue": "x"},
      "items": [{"a": "}]\"\\"}, {"items": [{"b": {}}, []]}
      , {}], "more": [{"not": 2}]})";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    const Sliced sliced = Slice(text, size);
    EXPECT_TRUE(sliced.status.ok());
    ASSERT_THAT(sliced.items,
                ElementsAre(R"({"a": "}]\"\\"})", R"({"items": [{"b": {}}, []]})", "{}"))
        << size;
    nlohmann::json whole = nlohmann::json::parse(text);
    whole["items"] = nlohmann::json::array();
    ASSERT_EQ(nlohmann::json::parse(sliced.rest), whole) << size;
  }
}

TEST(ListSlicer, GivesWhatAParserOfTheWholeFinds) {
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    nlohmann::json list = {{"metadata", {{"name", "\"items\":[{"}}},
                           {"items", nlohmann::json::array()}};
    for (std::size_t n = random() % 5; n > 0; --n)
      list["items"].push_back(
          {{"text", std::string(random() % 9, "\"\\{}[],:"[random() % 8])}, {"n", n}});
    const Sliced sliced = Slice(list.dump(static_cast<int>(random() % 3) - 1), 1 + random() % 40);
    nlohmann::json items = nlohmann::json::array();
    for (const std::string& item : sliced.items) items.push_back(nlohmann::json::parse(item));
    ASSERT_EQ(items, list["items"]);
  }
}

TEST(ListSlicer, WhatIsTooLargeEndsTheList) {
  const std::string large = R"({"items": [{"a": ")" + std::string(200, 'x') + R"("}]})";
  for (const std::size_t size : {1u, 50u, 1000u}) {
    EXPECT_TRUE(absl::IsDataLoss(Slice(large, size, 100).status));
    EXPECT_TRUE(Slice(large, size, 300).status.ok());
    EXPECT_TRUE(
        absl::IsDataLoss(Slice("{\"a\": \"" + std::string(2 << 20, 'x'), size + 999).status));
  }
}

TEST(ListSlicer, BytesThatAreNoListGiveNoItems) {
  for (const char* text :
       {"", "[", "]]]]{{{{", "items\":[{}", R"({"items": {"items": [{}]}})", "[[{}]]"})
    EXPECT_THAT(Slice(text, 1).items, IsEmpty()) << text;
}

}  // namespace
}  // namespace strobe::kube
