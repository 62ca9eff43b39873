#include "sidecar/source/agent/failed_starts.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace strobe::source {
namespace {

class TakeFailedStartsTest : public testing::Test {
 protected:
  TakeFailedStartsTest() : directory_(mkdtemp(name_.data())) {}
  ~TakeFailedStartsTest() override { std::filesystem::remove_all(directory_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
  }
  std::map<std::string, std::string> Take() {
    std::map<std::string, std::string> told;
    for (const FailedStart& start : TakeFailedStarts(directory_))
      told[start.process] = start.message;
    return told;
  }
  std::string name_ = "/tmp/strobe-failed-starts-XXXXXX";
  const std::string directory_;
};

TEST_F(TakeFailedStartsTest, TellsEachOnce) {
  Write("t@42.failed", "ModuleNotFoundError: no\nmodule\n");
  Write("43.failed", "");
  Write("44-7.process", "{}");
  EXPECT_THAT(Take(),
              testing::ElementsAre(testing::Pair("43", ""),
                                   testing::Pair("t@42", "ModuleNotFoundError: no module")));
  EXPECT_TRUE(Take().empty());
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/44-7.process"));
  EXPECT_TRUE(TakeFailedStarts(directory_ + "/none").empty());
}

TEST_F(TakeFailedStartsTest, TheFileOfALivingProcessStays) {
  Write("t@42.failed", "no");
  const std::string path = directory_ + "/t@42.failed";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int file = open(path.c_str(), O_WRONLY);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    const char done = fcntl(file, F_SETLK, &lock) == 0 ? 1 : 0;
    (void)!write(ends[1], &done, 1);
    pause();
    _exit(0);
  }
  char locked = 0;
  ASSERT_EQ(read(ends[0], &locked, 1), 1);
  ASSERT_EQ(locked, 1);
  for (int i = 0; i < 2; ++i) {
    const std::vector<FailedStart> told = TakeFailedStarts(directory_);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_TRUE(told[0].lives);
    EXPECT_EQ(told[0].container(), "t");
    EXPECT_EQ(told[0].pid(), "42");
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const std::vector<FailedStart> told = TakeFailedStarts(directory_);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_FALSE(told[0].lives);
  EXPECT_FALSE(std::filesystem::exists(path));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(TakeFailedStartsTest, HostileFilesDoNoHarm) {
  ASSERT_EQ(mkfifo((directory_ + "/fifo.failed").c_str(), 0666), 0);
  ASSERT_EQ(symlink("/etc/passwd", (directory_ + "/link.failed").c_str()), 0);
  ASSERT_EQ(mkdir((directory_ + "/folder.failed").c_str(), 0777), 0);
  Write("large.failed", std::string(1 << 20, 'x'));
  Write("binary.failed", "\xff\x01");
  const auto told = Take();
  EXPECT_EQ(told.size(), 4u) << "a folder cannot be removed";
  EXPECT_EQ(told.at("link"), "left no readable message");
  EXPECT_EQ(told.at("large").size(), 500u);
  EXPECT_EQ(told.at("binary"), "\xef\xbf\xbd ");
  for (int i = 0; i < 100; ++i) Write(std::to_string(i) + ".failed", "x");
  EXPECT_EQ(TakeFailedStarts(directory_).size(), kMaxFailedStarts);
}

}  // namespace
}  // namespace strobe::source
