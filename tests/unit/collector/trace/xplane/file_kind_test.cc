#include "collector/trace/xplane/file_kind.h"

#include <gmock/gmock.h>

#include "collector/trace/xplane/wire.h"
#include "common/base/strings.h"

namespace strobe::xplane {
namespace {

using testing::HasSubstr;

// A message with these fields: numbers have varints, the others text.
std::string Message(const std::vector<std::pair<std::uint32_t, std::string>>& fields) {
  std::string bytes;
  for (const auto& [field, text] : fields) {
    if (text.find_first_not_of("0123456789") == std::string::npos && !text.empty())
      wire::AppendVarintField(field, std::stoull(text), bytes);
    else
      wire::AppendBytesField(field, text, bytes);
  }
  return bytes;
}

std::string Packets(const std::vector<std::string>& packets) {
  std::string bytes;
  for (const std::string& packet : packets) wire::AppendBytesField(1, packet, bytes);
  return bytes;
}

TEST(WhyNoSpace, AnXSpaceIsOne) {
  const std::string line = Message({{1, "7"}, {2, "a line"}, {3, "1700000000000000000"}});
  const std::vector<std::string> planes = {
      Message({{1, "1"}, {2, "/host:CPU"}, {3, line}}), Message({{2, "/device:GPU:0"}, {3, line}}),
      Message({{2, "Task Environment"}, {6, Message({{1, "1"}, {4, "3"}})}}), Message({{1, "3"}}),
      ""};
  for (const std::string& plane : planes) EXPECT_EQ(WhyNoSpace(Packets({plane})), "") << plane;
  EXPECT_EQ(WhyNoSpace(Packets(planes)), "");
  for (const std::uint32_t field : {2, 3, 4})
    EXPECT_EQ(WhyNoSpace(Message({{field, "no device\x01"}})), "");
  // A plane that is larger than the head.
  const std::string large = Packets({Message({{2, "/host:CPU"}, {3, std::string(200'000, '\1')}})});
  EXPECT_EQ(WhyNoSpace(large), "");
  for (std::size_t size = 1; size < 300; ++size)
    EXPECT_THAT(WhyNoSpace(std::string_view(large).substr(0, size)),
                testing::Not(HasSubstr("Perfetto")))
        << size;
}

TEST(WhyNoSpace, APerfettoTraceIsNone) {
  const std::vector<std::string> packets = {
      Message({{8, "123456"}, {10, "1"}, {11, Message({{9, "2"}})}}),  // An event of a track.
      Message({{10, "1"}, {60, Message({{1, "7"}})}}),                 // A track.
      Message({{1, "ftrace\x01"}, {10, "2"}}),
      Message({{3, "1000"}, {8, "5"}, {2, "processes\x01"}}),
  };
  for (const std::string& packet : packets)
    EXPECT_THAT(WhyNoSpace(Packets({packet})),
                HasSubstr("Perfetto trace, not an XSpace; https://ui"));
  EXPECT_THAT(WhyNoSpace(Packets(packets)), HasSubstr("Perfetto"));
  const std::string large = Message({{8, "1"}, {1, std::string(200'000, '\1')}});
  EXPECT_THAT(WhyNoSpace(Packets({large})), HasSubstr("Perfetto"));
}

TEST(WhyNoSpace, TellsWhatAFileIs) {
  const auto why = [](std::string_view head) { return WhyNoSpace(head); };
  EXPECT_EQ(why(""), "") << "an XSpace without planes";
  EXPECT_THAT(why("\x1f\x8b\x08"), HasSubstr("gzip"));
  EXPECT_THAT(why("\x28\xb5\x2f\xfd\x24"), HasSubstr("zstd -d"));
  EXPECT_THAT(why("\x78\x9c\xab"), HasSubstr("zlib"));
  EXPECT_THAT(why("\x78\x01\xab"), HasSubstr("zlib"));
  EXPECT_THAT(why("PK\x03\x04"), HasSubstr("ZIP"));
  EXPECT_THAT(why("\x89PNG\r\n\x1a\n"), HasSubstr("picture"));
  EXPECT_THAT(why("\x80\x04\x95"), HasSubstr("memory_viz"));
  EXPECT_THAT(why("SQLite format 3"), HasSubstr("Nsight"));
  EXPECT_THAT(why(std::string(257, 'a') + std::string(1, '\0')), HasSubstr("neither JSON nor"));
  EXPECT_THAT(why(std::string(256, 'a') + '\0' + "ustar"), HasSubstr("unpack"));
  EXPECT_THAT(why("# Strobe\n\nRecords traces; all at once. 42\n"), HasSubstr("text"));
  EXPECT_THAT(why("\n\nHello"), HasSubstr("text")) << "a line break is the tag of a plane";
  EXPECT_THAT(why("\"quoted\" text"), HasSubstr("text")) << "a quote is the tag of a host name";
  EXPECT_THAT(why("gr\xc3\xbc\xc3\x9f"), HasSubstr("text"));
  EXPECT_THAT(why(std::string(kHeadBytes - 1, 'a') + "\xc3\xbc"), HasSubstr("text"));
  EXPECT_THAT(why(" \r\n{\"traceEvents\":[]}"), HasSubstr("JSON"));
  EXPECT_THAT(why(std::string("\0\1\2", 3)), HasSubstr("neither JSON nor an XSpace"));
}

TEST(WhyNoSpace, SamplesHaveNoTimes) {
  EXPECT_THAT(WhyNoSpace("main;step;matmul 42\nmain;step;[kernel] read 7\n\n"),
              HasSubstr("only samples (collapsed stacks)"));
  EXPECT_THAT(WhyNoSpace("# captured on: today\npython 4242 [000]  1234.567890:   10101 cycles: \n"
                         "\tffffffff8104f45a native_write_msr ([kernel.kallsyms])\n"),
              HasSubstr("only samples (the text of perf script)"));
  EXPECT_THAT(WhyNoSpace("python  4242/4243  1234.567890: cpu-clock:u: \n"),
              HasSubstr("perf script"));
  EXPECT_THAT(WhyNoSpace("at 12:30:01.5 all was well; truly\n"), HasSubstr("this is text"));
}

TEST(BeginsJson, WhateverComesBefore) {
  for (const char* head : {"{", "[", " \r\n\t[1", "\xef\xbb\xbf{}"})
    EXPECT_TRUE(BeginsJson(head)) << head;
  for (const char* head : {"", " ", "x{", "\"{"}) EXPECT_FALSE(BeginsJson(head)) << head;
}

}  // namespace
}  // namespace strobe::xplane
