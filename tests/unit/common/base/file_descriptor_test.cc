#include "common/base/file_descriptor.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

namespace strobe {
namespace {

namespace fs = std::filesystem;

class OpenRegularFileTest : public testing::Test {
 protected:
  OpenRegularFileTest() {
    std::string name = testing::TempDir() + "regular_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~OpenRegularFileTest() override { fs::remove_all(folder_); }
  static absl::StatusCode CodeOf(const fs::path& path) {
    return OpenRegularFile(path.native()).status().code();
  }

  fs::path folder_;
};

TEST_F(OpenRegularFileTest, AFileIsReadAlsoThroughALink) {
  std::ofstream(folder_ / "file") << "text";
  fs::create_symlink("file", folder_ / "link");
  const auto file = OpenRegularFile((folder_ / "link").native());
  ASSERT_TRUE(file.ok()) << file.status();
  std::array<char, 8> room{};
  EXPECT_EQ(*ReadSome(*file, room), 4u);
}

// Regression: a pipe in a run's folder was waited for without an end.
TEST_F(OpenRegularFileTest, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", folder_ / "endless");
  for (const fs::path& path : {folder_, folder_ / "pipe", folder_ / "endless"})
    EXPECT_EQ(CodeOf(path), absl::StatusCode::kInvalidArgument) << path;
  EXPECT_EQ(CodeOf(folder_ / "missing"), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace strobe
