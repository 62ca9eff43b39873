#include "collector/trace/kineto/event_splitter.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Split {
  std::vector<std::string> events{}, members{};
  bool json = true;
};

// Splits a file that comes in pieces of `piece` bytes.
Split SplitFile(std::string_view file, std::size_t piece, EventSplitter& splitter) {
  Split split;
  for (bool more = true; more;) {
    const std::span<char> room = splitter.WriteSpace();
    const std::size_t size = std::min({file.size(), piece, room.size()});
    std::memcpy(room.data(), file.data(), size);
    file.remove_prefix(size);
    if (size == 0) splitter.EndInput();
    more = size > 0;
    splitter.Commit(size);
    for (auto found = splitter.Next();
         found != EventSplitter::Found::kMoreNeeded && found != EventSplitter::Found::kEnd;
         found = splitter.Next()) {
      if (found == EventSplitter::Found::kNotJson) {
        split.json = false;
        return split;
      }
      if (found == EventSplitter::Found::kMember)
        split.members.push_back(std::string(splitter.top().key()) + "=" +
                                std::string(splitter.top().value()));
      else
        for (const EventExtent& extent : splitter.events())
          split.events.emplace_back(splitter.buffer() + extent.begin, extent.end - extent.begin);
    }
  }
  return split;
}

Split SplitFile(std::string_view file, std::size_t piece = 1 << 20) {
  EventSplitter splitter;
  return SplitFile(file, piece, splitter);
}

constexpr std::string_view kFile = R"({
  "schemaVersion": 1, "text": "a ] } \" , b", "nested": {"traceEvents": [1], "x": "}"},
  "traceEvents": [
    {"name": "a", "args": {"grid": [1, 2]}},
    {"name": "brackets } ] in \" a text \\"} , {"b":{}}
  ],
  "traceName": "x"
}
)";

}  // namespace

TEST(EventSplitter, FindsEventsAndMembers) {
  EventSplitter splitter;
  const Split split = SplitFile(kFile, 1 << 20, splitter);
  EXPECT_THAT(split.events,
              ElementsAre(R"({"name": "a", "args": {"grid": [1, 2]}})",
                          R"({"name": "brackets } ] in \" a text \\"})", R"({"b":{}})"));
  EXPECT_THAT(split.members,
              ElementsAre("schemaVersion=1", R"(text="a ] } \" , b")",
                          R"(nested={"traceEvents": [1], "x": "}"})", R"(traceName="x")"));
  EXPECT_TRUE(splitter.top().done());
  EXPECT_FALSE(splitter.cut());
  EXPECT_EQ(splitter.stray_brackets() + splitter.top().stray_bytes() + splitter.damage().pieces,
            0u);
}

TEST(EventSplitter, FindsTheSameInPiecesOfAnySize) {
  const Split whole = SplitFile(kFile);
  for (std::size_t piece = 1; piece < kFile.size(); ++piece) {
    const Split split = SplitFile(kFile, piece);
    EXPECT_EQ(split.events, whole.events) << piece;
    EXPECT_EQ(split.members, whole.members) << piece;
  }
}

TEST(EventSplitter, FindsTextsThatBeginAndEndAnywhereInABlock) {
  for (std::size_t before = 0; before < 140; ++before) {
    const std::string event = R"({"k": "\\\"}{\\"})";
    const std::string file = "[" + std::string(before, ' ') + event + "," + event + "]";
    EXPECT_THAT(SplitFile(file).events, ElementsAre(event, event)) << before;
  }
}

TEST(EventSplitter, ReadsArraysWithoutAnObjectAndWithoutAnEnd) {
  EventSplitter splitter;
  EXPECT_THAT(SplitFile("[{\"a\":1},\n{\"b\":2},\n", 7, splitter).events,
              ElementsAre("{\"a\":1}", "{\"b\":2}"));
  EXPECT_FALSE(splitter.cut()) << "Chrome permits it";
  EXPECT_TRUE(splitter.top().done());
}

TEST(EventSplitter, TellsThatAFileIsCut) {
  for (std::size_t size = 1; size < kFile.size() - 2; ++size) {
    EventSplitter splitter;
    SplitFile(kFile.substr(0, size), 100, splitter);
    EXPECT_TRUE(splitter.cut() || !splitter.top().done()) << size;
  }
}

TEST(EventSplitter, RefusesWhatIsNotJson) {
  EXPECT_FALSE(SplitFile("\x0a\x12/host:CPU").json);
  EXPECT_FALSE(SplitFile("<html>").json);
  EXPECT_TRUE(SplitFile("\xef\xbb\xbf [ ]").json);
}

TEST(EventSplitter, SkipsEventsThatAreTooLarge) {
  EventSplitter splitter;
  const std::string text(2 * kMaxEventBytes, 'x');
  const Split split = SplitFile("[{\"a\":\"" + text + "\"},{\"b\":1}]", 1 << 16, splitter);
  EXPECT_THAT(split.events, ElementsAre("{\"b\":1}"));
  EXPECT_EQ(splitter.too_large(), 1u);
}

TEST(EventSplitter, KeepsLargeEventsThatFit) {
  const std::string event = "{\"a\":\"" + std::string(kMaxEventBytes - 100, 'x') + "\"}";
  EXPECT_THAT(SplitFile("[" + event + "," + event + "]").events, ElementsAre(event, event));
}

TEST(EventSplitter, ReadsOnBehindALostQuote) {
  constexpr std::string_view kBegin = "{\"traceEvents\": [\n{\"ph\": \"X\"},\n";
  constexpr std::string_view kLost = "{\"name\": \"lost, \"pid\": 1},\n";
  std::string file = StrCat(kBegin, kLost);
  for (int i = 0; i < 100; ++i) file += StrCat("{\"ph\": \"", i, "\"},\n");
  file += "{}]}\n";
  for (const std::size_t piece : {1, 7, 64, 1 << 20}) {
    EventSplitter splitter;
    const Split split = SplitFile(file, piece, splitter);
    EXPECT_EQ(splitter.damage().pieces, 1u) << piece;
    EXPECT_EQ(splitter.damage().first_at, kBegin.size());
    EXPECT_EQ(splitter.damage().bytes, kLost.size());
    EXPECT_EQ(split.events.size(), 102u);
    EXPECT_EQ(split.events.front(), "{\"ph\": \"X\"}");
    EXPECT_EQ(split.events[1], "{\"ph\": \"0\"}");
    EXPECT_TRUE(splitter.top().done());
  }
}

// Each candidate for the next event would otherwise be another pass over the rest.
TEST(EventSplitter, ReadsManyLostQuotesInLinearTime) {
  const auto repeated = [](std::string_view piece) {
    std::string file = "[{\"a\": x\"y,";
    while (file.size() < (8 << 20)) file += piece;
    return file;
  };
  for (const std::string_view piece :
       {"{\"\n", "{\"a\":", "{\"a\":[", "]", "[{},{\"a\":", "\",{\"ph\":\"", "}{\"ph\":1,\"a\":"}) {
    EventSplitter splitter;
    SplitFile(repeated(piece), 1 << 20, splitter);
    EXPECT_GE(splitter.damage().pieces, 1u) << piece;
  }
}

TEST(EventSplitter, ABracketTooManyEndsNothing) {
  for (const std::string_view bracket : {"]", "}", "]}"}) {
    for (const bool bare : {true, false}) {
      EventSplitter splitter;
      const Split split =
          SplitFile(StrCat(bare ? "[" : "{\"traceEvents\": [", "{\"a\": 1}", bracket,
                           ", {\"b\": [2]}, {\"c\": 3}", bare ? "]" : "], \"d\": 4}"),
                    1 << 20, splitter);
      EXPECT_THAT(split.events, ElementsAre("{\"a\": 1}", "{\"b\": [2]}", "{\"c\": 3}")) << bracket;
      EXPECT_TRUE(splitter.top().done());
    }
  }
}

TEST(EventSplitter, CutsMembersThatAreTooLong) {
  const std::string text(2 * TopLevel::kMaxValueBytes, 'x');
  EventSplitter splitter;
  const Split split = SplitFile("{\"a\":\"" + text + "\",\"traceEvents\":[{}]}", 1 << 16, splitter);
  ASSERT_EQ(split.members.size(), 1u);
  EXPECT_EQ(split.members[0].size(), TopLevel::kMaxValueBytes + 2);
  EXPECT_EQ(split.events.size(), 1u);
}

}  // namespace strobe::kineto
