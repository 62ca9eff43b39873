#include "sidecar/spool/gzip_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "common/base/files.h"

namespace strobe::spool {
namespace {

class GzipFileTest : public testing::Test {
 protected:
  GzipFileTest() : directory_(mkdtemp(name_.data())) {}
  ~GzipFileTest() override { std::filesystem::remove_all(directory_); }
  absl::Status Compress(const std::string& text, const GzipLimits& limits) {
    std::ofstream(directory_ + "/from") << text;
    const FileDescriptor from(open((directory_ + "/from").c_str(), O_RDONLY | O_CLOEXEC));
    char first = 0;
    EXPECT_LE(read(from.get(), &first, 1), 1);  // The position does not matter.
    return GzipFile(from, to_, "the comment", limits);
  }
  // Uses a program that is not ours.
  std::string Decompressed() const {
    EXPECT_EQ(std::system(("gzip -dc < " + to_ + " > " + directory_ + "/back").c_str()), 0);
    return *ReadTextFile(directory_ + "/back");
  }

  std::string name_ = "/tmp/strobe-gzip-XXXXXX";
  const std::string directory_, to_ = directory_ + "/to.gz";
  static constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
};

TEST_F(GzipFileTest, OthersReadIt) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < 3'000'000) text += std::to_string(random() % 1000) + ",";
  for (const std::string& content : {std::string(), std::string("x"), text}) {
    ASSERT_TRUE(Compress(content, {.max_bytes = kAny}).ok());
    EXPECT_TRUE(Decompressed() == content) << content.size();
    EXPECT_EQ(ReadTextFile(to_)->substr(10, 12), std::string("the comment\0", 12));
  }
  EXPECT_LT(std::filesystem::file_size(to_), text.size() / 2);
}

TEST_F(GzipFileTest, WhatIsTooLargeOrTakesTooLongLeavesNothing) {
  std::mt19937 random(1);
  std::string noise(1 << 20, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  EXPECT_TRUE(absl::IsResourceExhausted(Compress(noise, {.max_bytes = 1 << 19})));
  EXPECT_FALSE(std::filesystem::exists(to_));
  int asked = 0;
  const absl::Status late = Compress(
      noise, {.max_bytes = kAny, .check = [&] {
                return ++asked < 3 ? absl::OkStatus() : absl::DeadlineExceededError("late");
              }});
  EXPECT_TRUE(absl::IsDeadlineExceeded(late));
  EXPECT_FALSE(std::filesystem::exists(to_));
  EXPECT_TRUE(absl::IsNotFound(GzipFile(FileDescriptor(), directory_ + "/no/x", "", {})));
  EXPECT_FALSE(GzipFile(FileDescriptor(), to_, "", {.max_bytes = kAny}).ok()) << "nothing to read";
}

}  // namespace
}  // namespace strobe::spool
