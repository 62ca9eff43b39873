#include "sidecar/source/inproc/left_trace.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/file_descriptor.h"
#include "sidecar/spool/gzip_file.h"

namespace strobe::source {
namespace {

class LeftTraceTest : public testing::Test {
 protected:
  LeftTraceTest() : directory_(mkdtemp(name_.data())) {}
  ~LeftTraceTest() override { std::filesystem::remove_all(directory_); }
  std::string PathOf(const char* name) const { return directory_ + "/" + name; }
  FrameworkAnswer Take(std::uint64_t max_bytes) const {
    FrameworkAnswer answer;
    TakeLeftTrace(directory_, {.name = "a.pt.trace.json", .format = "kineto"}, max_bytes, {},
                  answer);
    return answer;
  }

  static constexpr std::uint64_t kMax = 64 << 10;
  std::string name_ = "/tmp/strobe-left-XXXXXX";
  const std::string directory_;
};

TEST_F(LeftTraceTest, IsTakenAndRemoved) {
  std::ofstream(PathOf("a.pt.trace.json")) << R"({"traceEvents": []})";
  const FrameworkAnswer answer = Take(kMax);
  EXPECT_EQ(answer.verdict.outcome, Outcome::kOk) << answer.verdict.message;
  EXPECT_FALSE(answer.trace.empty());
  EXPECT_FALSE(std::filesystem::exists(PathOf("a.pt.trace.json")));
}

// Regression: the limit was compared with the size of the compressed file, so that reading one that
// contains a thousand times as much took as long.
TEST_F(LeftTraceTest, WhatIsReadIsBoundedAlsoIfItIsCompressed) {
  const std::string plain = PathOf("plain");
  std::ofstream(plain) << R"({"traceEvents": [)" << std::string(16 << 20, ' ') << "]}";
  const FileDescriptor file(open(plain.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(spool::GzipFile(file, PathOf("a.pt.trace.json"), "", {.max_bytes = 2 * kMax}).ok());
  const FrameworkAnswer answer = Take(kMax);
  EXPECT_EQ(answer.verdict.outcome, Outcome::kTruncated) << answer.verdict.message;
  EXPECT_TRUE(answer.trace.empty());
}

}  // namespace
}  // namespace strobe::source
