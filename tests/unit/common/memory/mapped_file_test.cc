#include "common/memory/mapped_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

namespace strobe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() { Write(100'000); }
  ~MappedFileTest() override { fs::remove(path_); }
  void Write(std::size_t size) { std::ofstream(path_, std::ios::binary) << std::string(size, 'x'); }
  static std::size_t Count(std::string_view bytes) {
    return static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), 'x'));
  }

  const std::string path_ =
      (fs::temp_directory_path() / ("strobe-mapped-" + std::to_string(::getpid()))).native();
};

TEST_F(MappedFileTest, AFileThatStaysIsFine) {
  const auto file = MappedFile::Open(path_);
  EXPECT_EQ(Count(file->bytes()), 100'000u);
  EXPECT_TRUE(file->Check().ok());
}

TEST_F(MappedFileTest, ATruncatedFileIsAnErrorAndNoSignal) {
  auto opened = MappedFile::Open(path_);
  const MappedFile file = *std::move(opened);
  fs::resize_file(path_, 10'000);
  EXPECT_LT(Count(file.bytes()), 13'000u);
  const absl::Status status = file.Check();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  fs::resize_file(path_, 100'000);
  EXPECT_FALSE(file.Check().ok()) << "what was read in between stays wrong";
}

TEST_F(MappedFileTest, WithinItsLastPageTheSizeTells) {
  const auto file = MappedFile::Open(path_);
  fs::resize_file(path_, 99'999);
  EXPECT_EQ(Count(file->bytes()), 99'999u) << "without any signal";
  EXPECT_TRUE(absl::IsDataLoss(file->Check()));
}

TEST_F(MappedFileTest, ADeletedOrReplacedFileIsStillThere) {
  const auto file = MappedFile::Open(path_);
  fs::remove(path_);
  EXPECT_TRUE(file->Check().ok());
  Write(5);
  EXPECT_TRUE(file->Check().ok());
  EXPECT_EQ(Count(file->bytes()), 100'000u);
}

TEST_F(MappedFileTest, AnEmptyFileIsEmpty) {
  Write(0);
  const auto file = MappedFile::Open(path_);
  EXPECT_EQ(file->bytes(), "");
  EXPECT_TRUE(file->Check().ok());
}

}  // namespace
}  // namespace strobe
