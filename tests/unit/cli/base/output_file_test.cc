#include "cli/base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "common/base/file_descriptor.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() {
    std::string name = testing::TempDir() + "output_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  static void Write(const fs::path& path, std::string_view text) {
    auto file = OutputFile::Create(path.native());
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write(text).ok());
    std::uint64_t bytes = 0;
    const absl::Status finished = (*file)->Finish(bytes);
    ASSERT_TRUE(finished.ok()) << finished;
  }
  static std::string Read(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename().native());
    return names;
  }

  fs::path folder_;
};

TEST_F(OutputFileTest, AFileAppearsOnlyWhenItIsComplete) {
  {
    const auto file = OutputFile::Create((folder_ / "a.json").native());
    ASSERT_TRUE(file.ok() && (*file)->Write("half").ok());
    EXPECT_FALSE(fs::exists(folder_ / "a.json"));
  }
  EXPECT_THAT(Names(), IsEmpty());
  Write(folder_ / "a.json", "whole");
  EXPECT_EQ(Read(folder_ / "a.json"), "whole");
}

// Regression: `-o latest.json` replaced the link and left its target as it was.
TEST_F(OutputFileTest, ALinkKeepsLeadingToTheFile) {
  fs::create_directory(folder_ / "runs");
  std::ofstream(folder_ / "runs/1.json") << "old";
  fs::create_symlink("runs/1.json", folder_ / "first.json");
  fs::create_symlink("first.json", folder_ / "latest.json");
  Write(folder_ / "latest.json", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "latest.json") && fs::is_symlink(folder_ / "first.json"));
  EXPECT_EQ(Read(folder_ / "runs/1.json"), "new");
  fs::create_symlink("runs/2.json", folder_ / "next.json");
  Write(folder_ / "next.json", "made");
  EXPECT_EQ(Read(folder_ / "runs/2.json"), "made");
}

TEST_F(OutputFileTest, LinksInACircleAreAnError) {
  fs::create_symlink("b.json", folder_ / "a.json");
  fs::create_symlink("a.json", folder_ / "b.json");
  EXPECT_FALSE(OutputFile::Create((folder_ / "a.json").native()).ok());
}

// Regression: with the output redirected to a file, `-o /dev/stdout` renamed a file over the link
// /dev/stdout, and what the shell had opened stayed empty.
TEST_F(OutputFileTest, AnOpenFileIsWrittenDirectly) {
  const fs::path out = folder_ / "out.json";
  const FileDescriptor opened(open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_EQ(WriteAll(opened.get(), "before "), 0);
  Write(StrCat("/proc/self/fd/", opened.get()), "json");
  EXPECT_EQ(Read(out), "before json");
  fs::create_symlink(StrCat("/dev/fd/", opened.get()), folder_ / "link");
  Write(folder_ / "link", " again");
  EXPECT_EQ(Read(out), "before json again");
  struct stat status = {};
  ASSERT_EQ(fstat(opened.get(), &status), 0);
  EXPECT_EQ(status.st_nlink, 1u) << "not replaced";
}

TEST_F(OutputFileTest, APipeIsWrittenDirectly) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const FileDescriptor reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_TRUE(OutputFile::IsDirect(pipe.native()));
  EXPECT_FALSE(OutputFile::IsDirect((folder_ / "new.json").native()));
  Write(pipe, "through the pipe");
  char room[64];
  EXPECT_EQ(*ReadSome(reader, room), 16u);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

}  // namespace
}  // namespace strobe::cli
