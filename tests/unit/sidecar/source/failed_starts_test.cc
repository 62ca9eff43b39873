#include "sidecar/source/failed_starts.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace strobe {
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
}  // namespace strobe
