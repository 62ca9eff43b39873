#include "common/base/files.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "common/base/strings.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

class StampOfFilesTest : public testing::Test {
 protected:
  StampOfFilesTest() {
    fs::create_directories(folder_);
    for (const std::string& path : paths_) std::ofstream(path) << "trace";
  }
  ~StampOfFilesTest() override { fs::remove_all(folder_); }
  std::string Stamp() const {
    const absl::StatusOr<std::string> stamp = StampOfFiles(paths_);
    EXPECT_TRUE(stamp.ok()) << stamp.status();
    return stamp.value_or("");
  }

  const fs::path folder_ = fs::temp_directory_path() / StrCat("strobe-stamp-", getpid());
  std::vector<std::string> paths_{folder_ / "a", folder_ / "b"};
};

TEST_F(StampOfFilesTest, IsTheSameUntilAFileIsWritten) {
  const std::string before = Stamp();
  EXPECT_EQ(Stamp(), before);
  std::ofstream(paths_[1], std::ios::app) << "more";
  EXPECT_NE(Stamp(), before);
}

TEST_F(StampOfFilesTest, TellsFilesOfTheSameSizeByTheirTime) {
  const std::string before = Stamp();
  fs::last_write_time(paths_[0], fs::last_write_time(paths_[0]) + std::chrono::microseconds(1));
  EXPECT_NE(Stamp(), before);
}

TEST_F(StampOfFilesTest, IsAnotherOneForOtherFiles) {
  const std::string before = Stamp();
  paths_.pop_back();
  EXPECT_NE(Stamp(), before);
}

TEST_F(StampOfFilesTest, AMissingFileIsAnError) {
  fs::remove(paths_[0]);
  EXPECT_TRUE(absl::IsNotFound(StampOfFiles(paths_).status()));
}

}  // namespace
}  // namespace strobe
