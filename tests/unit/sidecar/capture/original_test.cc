#include "sidecar/capture/original.h"

#include <gtest/gtest.h>

#include "common/base/strings.h"

namespace strobe::session {
namespace {

std::string Head(char flags, std::string_view comment) {
  return StrCat(std::string_view("\x1f\x8b\x08"), std::string_view(&flags, 1),
                std::string_view("\0\0\0\0\4\xff", 6), comment);
}

TEST(CaptureOfHead, ReadsTheCommentOfAGzipHeader) {
  const std::string comment = OriginalComment("uid-1") + std::string(1, '\0');
  EXPECT_EQ(CaptureOfHead(Head(16, comment + "compressed")), "uid-1");
  EXPECT_EQ(CaptureOfHead(Head(16, OriginalComment(std::string(128, 'x')) + std::string(1, '\0'))),
            std::string(128, 'x'));
}

TEST(CaptureOfHead, FilesOfOthersNameNone) {
  const std::string comment = OriginalComment("uid-1") + std::string(1, '\0');
  for (const std::string& head :
       {std::string(), Head(16, ""), Head(16, "uid-1"), Head(16, OriginalComment("uid-1")),
        Head(16, "another" + std::string(1, '\0')), Head(0, comment), Head(24, comment),
        "{" + Head(16, comment)})
    EXPECT_EQ(CaptureOfHead(head), "") << head;
}

TEST(OriginalName, IsOneThatToolsOfPyTorchKnow) {
  const Original original{.number = 3};
  EXPECT_EQ(OriginalName("w0", original), "w0.3.pt.trace.json.gz");
  EXPECT_EQ(OriginalName("w0.3", original), "w0.3.pt.trace.json.gz") << "a worker of its own";
  EXPECT_EQ(OriginalName("w0", {.container = "trainer", .number = 3}),
            "w0.trainer.3.pt.trace.json.gz");
}

}  // namespace
}  // namespace strobe::session
