#include "sidecar/source/agent/step_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "agent/wire/layout.h"

namespace strobe::source {
namespace {

class StepFileTest : public testing::Test {
 protected:
  StepFileTest() : directory_(mkdtemp(name_.data())) {
    process_.program = "/app/train.py";
    process_.pid = 42;
    process_.socket = "42.sock";
    process_.steps = "42.steps";
    file_->magic = wire::kStepMagic;
    wire::StepLoop& loop = file_->loops[0];
    std::string_view("train").copy(loop.name, sizeof loop.name);
    loop.begun = 1;
    loop.marks[0].number = 7;
    loop.marks[0].began_ns = 5;
  }

  ~StepFileTest() override { std::filesystem::remove_all(directory_); }

  void Write(std::size_t bytes) const {
    const int fd = open(path().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ASSERT_EQ(write(fd, file_.get(), bytes), static_cast<ssize_t>(bytes));
    close(fd);
  }
  std::string path() const { return directory_ + "/42.steps"; }

  std::vector<v1::StepPace> Told() const {
    const FileDescriptor directory(open(directory_.c_str(), O_RDONLY | O_DIRECTORY));
    std::vector<v1::StepPace> told;
    AddStepsOf(directory, process_, 100, told);
    return told;
  }

  std::string name_ = "/tmp/strobe-steps-XXXXXX";
  const std::string directory_;
  Announcement process_{};
  std::unique_ptr<wire::StepFile> file_ = std::make_unique<wire::StepFile>();
};

TEST_F(StepFileTest, TellsTheStepsAndWhoTellsThem) {
  Write(sizeof(wire::StepFile));
  const std::vector<v1::StepPace> told = Told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].loop(), "train");
  EXPECT_EQ(told[0].process(), "train.py 42");
  EXPECT_EQ(told[0].teller(), "42.sock");
  EXPECT_EQ(told[0].number(), 7);
  EXPECT_EQ(told[0].began_ns(), 105);
  EXPECT_EQ(told[0].ended_ns(), 0);
  EXPECT_EQ(told[0].source(), v1::SOURCE_FRAMEWORK);
}

TEST_F(StepFileTest, NothingIsToldByAnythingElse) {
  EXPECT_TRUE(Told().empty()) << "there is no file";
  Write(sizeof(wire::StepFile) - 1);
  EXPECT_TRUE(Told().empty()) << "it is cut";
  ++file_->magic;
  Write(sizeof(wire::StepFile));
  EXPECT_TRUE(Told().empty()) << "it has another format";
  ASSERT_EQ(unlink(path().c_str()), 0);
  ASSERT_EQ(mkfifo(path().c_str(), 0644), 0);
  EXPECT_TRUE(Told().empty()) << "it is a FIFO, which would block";
  ASSERT_EQ(unlink(path().c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", path().c_str()), 0);
  EXPECT_TRUE(Told().empty()) << "it is a link";
  process_.steps.clear();
  EXPECT_TRUE(Told().empty()) << "none was announced";
}

}  // namespace
}  // namespace strobe::source
