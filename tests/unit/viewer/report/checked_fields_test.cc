#include "viewer/report/checked_fields.h"

#include <gmock/gmock.h>

namespace strobe::viewer {
namespace {

using FieldsJson = nlohmann::ordered_json;

constexpr Field kPart[] = {{"name", kText}, {"size"}};
constexpr Field kPartEntry[] = {{"", kObject, kPart}};
constexpr Field kSizeEntry[] = {{""}};
constexpr Field kWhole[] = {{"text", kText, {}, 4},
                            {"flag", kFlag},
                            {"part", kObject, kPart},
                            {"parts", kList, kPartEntry, 2},
                            {"sizes", kList, kSizeEntry, 3}};

std::string WhyNotRead(const char* text) {
  const auto read = ReadFields(FieldsJson::parse(text), kWhole, "it");
  return read.ok() ? "" : std::string(read.status().message());
}

TEST(ReadFields, TakesWhatIsKnownAndCountsWhatItCuts) {
  const auto read = ReadFields(
      FieldsJson::parse(R"({"text": "longer", "other": 1, "part": {"name": "a", "size": 2},
                            "parts": [{"name": "b"}, {}, {}], "sizes": [1, null, 3]})"),
      kWhole, "it");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_LE((*read)["text"].get<std::string>().size(), 4u + 3);
  EXPECT_EQ((*read)["flag"], nullptr) << "it is not told";
  EXPECT_FALSE(read->contains("other"));
  EXPECT_EQ((*read)["part"], FieldsJson::parse(R"({"name": "a", "size": 2})"));
  EXPECT_EQ((*read)["parts"].size(), 2u);
  EXPECT_EQ((*read)["partsMore"], 1);
  EXPECT_EQ((*read)["sizes"], FieldsJson::parse("[1, null, 3]"));
  EXPECT_FALSE(read->contains("sizesMore"));
}

TEST(ReadFields, TheFirstValueOfAWrongTypeIsNamed) {
  EXPECT_EQ(WhyNotRead("[]"), "it is not an object");
  EXPECT_EQ(WhyNotRead(R"({"text": 1})"), "it.text is not a text");
  EXPECT_EQ(WhyNotRead(R"({"flag": 1})"), "it.flag is not true or false");
  EXPECT_EQ(WhyNotRead(R"({"part": []})"), "it.part is not an object");
  EXPECT_EQ(WhyNotRead(R"({"parts": {}})"), "it.parts is not a list");
  EXPECT_EQ(WhyNotRead(R"({"parts": [{}, {"size": "1"}]})"),
            "it.parts[1].size is not a number up to 1e18");
  EXPECT_EQ(WhyNotRead(R"({"parts": [null]})"), "it.parts[0] is not an object");
  EXPECT_EQ(WhyNotRead(R"({"sizes": [1e19]})"), "it.sizes[0] is not a number up to 1e18");
}

}  // namespace
}  // namespace strobe::viewer
