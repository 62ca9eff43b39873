#include "sidecar/source/kineto/kineto_directory.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class KinetoDirectoryTest : public testing::Test {
 protected:
  KinetoDirectoryTest() {
    char name[] = "/tmp/strobe-kineto-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~KinetoDirectoryTest() override { fs::remove_all(directory_); }
  std::string Write(const std::string& name, Nanos age = 0s) const {
    std::ofstream(directory_ / name) << "x";
    fs::last_write_time(
        directory_ / name,
        fs::file_time_type::clock::now() - std::chrono::duration_cast<std::chrono::seconds>(age));
    return name;
  }
  bool Has(const std::string& name) const { return fs::exists(directory_ / name); }

  fs::path directory_;
};

TEST_F(KinetoDirectoryTest, IsForEverybodyAndHasTheIntervalBeforeTrainersStart) {
  const std::string below = directory_ / "new" / "kineto";
  ASSERT_TRUE(PrepareKinetoDirectory(below).ok());
  ASSERT_TRUE(PrepareKinetoDirectory(below).ok()) << "again, after a restart";
  struct stat info {};
  ASSERT_EQ(stat(below.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 01777u);
  std::ifstream in(below + "/libkineto.conf");
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1");
}

// Regression: after a restart, the sidecar wrote through a link that a trainer had left.
TEST_F(KinetoDirectoryTest, WritesThroughNoLinkOfATrainer) {
  const std::string kept = Write("kept");
  for (const char* name : {".libkineto.conf", "libkineto.conf"})
    fs::create_symlink(directory_ / kept, directory_ / name);
  ASSERT_TRUE(PrepareKinetoDirectory(directory_).ok());
  EXPECT_EQ(fs::file_size(directory_ / kept), 1u);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(directory_ / "libkineto.conf")));
}

TEST_F(KinetoDirectoryTest, NamesAreNotRepeated) {
  EXPECT_NE(NewKinetoTrace("/d"), NewKinetoTrace("/d"));
  EXPECT_TRUE(NewKinetoTrace("/d").starts_with("/d/strobe-"));
}

TEST_F(KinetoDirectoryTest, SeesWhatBecomesOfATrace) {
  const std::string path = directory_ / "strobe-1_42.json";
  KinetoSigns signs;
  LookForTrace(path, MonoTime(1s), signs);
  EXPECT_FALSE(signs.began || signs.finished);
  Write("strobe-1_42.json.tmp");
  LookForTrace(path, MonoTime(2s), signs);
  EXPECT_EQ(signs.grew, MonoTime(2s));
  LookForTrace(path, MonoTime(3s), signs);
  EXPECT_EQ(signs.grew, MonoTime(2s));
  EXPECT_TRUE(signs.began);
  EXPECT_FALSE(signs.finished);
  EXPECT_EQ(signs.unfinished_bytes, 1u);
  fs::rename(path + ".tmp", path);
  LookForTrace(path, MonoTime(4s), signs);
  EXPECT_TRUE(signs.finished);
  Write("strobe-2_42.json.tmp");
  RemoveUnfinishedTrace(directory_ / "strobe-2_42.json");
  EXPECT_FALSE(Has("strobe-2_42.json.tmp"));
}

TEST_F(KinetoDirectoryTest, RemovesWhatNobodyAwaits) {
  Write("strobe-1_42.json");
  Write("strobe-1_42.json.tmp", 1h);
  Write("strobe-2_42.json");
  Write("strobe-3_42.json.tmp");
  Write("strobe-4_42.json.tmp", 1h);
  Write("of-others.json", 1h);
  Write("libkineto.conf", 1h);
  Write("dynoconfigclient-ended", 1h);
  TidyKinetoDirectory(directory_, {"strobe-1"}, 60s);
  EXPECT_TRUE(Has("strobe-1_42.json") && Has("strobe-1_42.json.tmp")) << "somebody awaits it";
  EXPECT_FALSE(Has("strobe-2_42.json")) << "of a capture that was cancelled";
  EXPECT_TRUE(Has("strobe-3_42.json.tmp")) << "its process may still record";
  EXPECT_FALSE(Has("strobe-4_42.json.tmp")) << "its process was killed";
  EXPECT_TRUE(Has("of-others.json") && Has("libkineto.conf"));
  EXPECT_FALSE(Has("dynoconfigclient-ended"));
}

}  // namespace
}  // namespace strobe::source
