#include "operator/kube/line_splitter.h"

#include <gmock/gmock.h>

#include <vector>

namespace strobe::kube {
namespace {

using testing::ElementsAre;

TEST(LineSplitter, GivesTheSameLinesHoweverTheBytesAreCut) {
  const std::string bytes = "{\"a\":\"\xc3\xa4\"}\n\n{\"b\":2}\r\n{\"c\":3}\n";
  std::vector<std::string> whole;
  LineSplitter once;
  once.Feed(bytes, [&](std::string_view line) { whole.emplace_back(line); });
  EXPECT_EQ(whole.size(), 3u);
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    std::vector<std::string> lines;
    LineSplitter splitter;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      EXPECT_TRUE(splitter.Feed(std::string_view(bytes).substr(at, size),
                                [&](std::string_view line) { lines.emplace_back(line); }));
    }
    EXPECT_EQ(lines, whole) << size;
  }
}

TEST(LineSplitter, GivesUpOnEndlessLines) {
  LineSplitter splitter(100);
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  EXPECT_TRUE(splitter.Feed(std::string(100, 'x') + "\n", keep));
  EXPECT_FALSE(splitter.Feed(std::string(60, 'x'), keep) &&
               splitter.Feed(std::string(60, 'x'), keep));
  EXPECT_EQ(lines.size(), 1u);
}

}  // namespace
}  // namespace strobe::kube
