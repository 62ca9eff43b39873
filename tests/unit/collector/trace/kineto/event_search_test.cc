#include "collector/trace/kineto/event_search.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace strobe::kineto {
namespace {

using Kind = Scanned::Kind;

constexpr std::string_view kEvent =
    R"({"ph": "X", "ts": 1.5e3, "n": -Infinity, "s": "a \" } \\", "args": {"l": [1, [], {}], "t": true,},})";

TEST(EventSearch, EveryBeginningOfAnObjectIsOpen) {
  for (std::size_t size = 1; size < kEvent.size(); ++size)
    EXPECT_EQ(ScanObject(kEvent.substr(0, size)).kind, Kind::kOpen) << size;
  const Scanned whole = ScanObject(std::string(kEvent) + ", {");
  EXPECT_TRUE(whole.IsEvent());
  EXPECT_EQ(whole.size, kEvent.size());
}

TEST(EventSearch, APhaseWithinTheArgumentsMakesNoEvent) {
  EXPECT_FALSE(ScanObject(R"({"args": {"ph": "X"}})").has_phase);
  EXPECT_FALSE(ScanObject(R"({"name": "ph"})").has_phase);
  EXPECT_TRUE(ScanObject(R"({"args": {}, "ph": "X"})").IsEvent());
}

// What an independent parser accepts is whole; what it refuses is not, but for what EventReader can
// read.
TEST(EventSearch, IsAsStrictAsAParser) {
  const std::string json = R"({"ph":"X","a":[1,{"b":"c"}],"d":{"e":2}})";
  int broken = 0;
  for (std::size_t at = 1; at < json.size(); ++at) {
    for (const char c : std::string_view("\"{}[],:1x \n")) {
      std::string changed = json;
      changed[at] = c;
      const Scanned scanned = ScanObject(changed);
      const bool whole = scanned.kind == Kind::kWhole && scanned.size == changed.size();
      const bool valid = nlohmann::json::accept(changed);
      EXPECT_FALSE(valid && !whole) << changed;
      broken += scanned.kind == Kind::kBroken;
    }
  }
  EXPECT_GT(broken, 200);
}

TEST(EventSearch, TheEndOfAFileHasOnlyMembersBehindIt) {
  const auto is_end = [](std::string_view bytes, FileEnd file) {
    const Scanned end = ScanEnd(bytes, file);
    return end.kind == Kind::kOpen && end.size == bytes.size();
  };
  EXPECT_TRUE(is_end("]", {.bare = true}));
  EXPECT_TRUE(is_end("]\n ", {.bare = true}));
  EXPECT_FALSE(is_end("], {", {.bare = true}));
  EXPECT_TRUE(is_end("]", {}));
  EXPECT_TRUE(is_end("]}", {}));
  EXPECT_TRUE(is_end(R"(], "a": [{"b": 1}], "c": "d"} )", {}));
  EXPECT_TRUE(is_end(R"(], "a": [{"b)", {})) << "cut";
  for (const std::string_view bytes : {"]}}", "]]", R"(], "a": 1}, {"ph": "X"})", "], {", "] 1"})
    EXPECT_FALSE(is_end(bytes, {})) << bytes;
}

}  // namespace
}  // namespace strobe::kineto
