#include "sidecar/source/agent/process_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "agent/wire/engine_file.h"
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

class EngineFileTest : public testing::Test {
 protected:
  EngineFileTest() : directory_(mkdtemp(name_.data())) {
    process_.program = "vllm";
    process_.pid = 42;
    process_.engine_file = "42.engine";
    file_->magic = wire::kEngineMagic;
  }
  ~EngineFileTest() override { std::filesystem::remove_all(directory_); }

  // Iterations that take 10 ns each, from `first` on.
  void Run(std::uint64_t count) {
    for (std::uint64_t n = 0; n < count; ++n, ++file_->begun) {
      file_->marks[file_->begun % wire::kEngineMarks] = {
          .number = static_cast<std::int64_t>(file_->begun),
          .began_ns = 1000 + 20 * file_->begun,
          .ended_ns = 1010 + 20 * file_->begun,
          .requests = 3,
          .tokens = 40};
    }
  }
  void Write(std::size_t bytes = sizeof(wire::EngineFile)) const {
    const std::string path = directory_ + "/42.engine";
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ASSERT_EQ(write(fd, file_.get(), bytes), static_cast<ssize_t>(bytes));
    close(fd);
  }
  std::vector<session::EngineReading> Told() const {
    const FileDescriptor directory(open(directory_.c_str(), O_RDONLY | O_DIRECTORY));
    std::vector<session::EngineReading> told;
    AddEngineOf(directory, process_, told);
    return told;
  }

  std::string name_ = "/tmp/strobe-engine-XXXXXX";
  const std::string directory_;
  Announcement process_{};
  std::unique_ptr<wire::EngineFile> file_ = std::make_unique<wire::EngineFile>();
};

MonoTime EngineMoment(std::int64_t ns) { return MonoTime{Nanos{ns}}; }

TEST_F(EngineFileTest, TellsIterationsAndTheQueue) {
  Run(3);
  file_->marks[2].ended_ns = 0;
  file_->running = 4;
  file_->waiting = 1;
  file_->busy_ns = 900;
  Write();
  const std::vector<session::EngineReading> told = Told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].process, "vllm 42");
  ASSERT_EQ(told[0].iterations.size(), 3u);
  EXPECT_EQ(told[0].iterations[1].number, 1);
  EXPECT_EQ(told[0].iterations[1].begin, EngineMoment(1020));
  EXPECT_EQ(told[0].iterations[1].end, EngineMoment(1030));
  EXPECT_EQ(told[0].iterations[1].requests, 3u);
  EXPECT_EQ(told[0].iterations[1].tokens, 40u);
  EXPECT_FALSE(told[0].iterations[2].end) << "it runs";
  EXPECT_EQ(told[0].running, 4u);
  EXPECT_EQ(told[0].waiting, 1u);
  EXPECT_EQ(told[0].busy_since, EngineMoment(900));
  EXPECT_FALSE(told[0].worked);
}

TEST_F(EngineFileTest, TheOldestMarkIsLeftOutBecauseItMayBeReplaced) {
  Run(1000);
  Write();
  const std::vector<session::EngineReading> told = Told();
  ASSERT_EQ(told[0].iterations.size(), wire::kEngineMarks - 1);
  EXPECT_EQ(told[0].iterations.front().number, 1000 - 255);
  EXPECT_EQ(told[0].iterations.back().number, 999);
}

TEST_F(EngineFileTest, NothingIsTakenFromAnythingElse) {
  EXPECT_TRUE(Told().empty()) << "there is no file";
  Write(sizeof(wire::EngineFile) - 1);
  EXPECT_TRUE(Told().empty()) << "the file is too small";
  file_->magic = 7;
  Write();
  EXPECT_TRUE(Told().empty());
  file_->magic = wire::kEngineMagic;
  Write();
  EXPECT_EQ(Told().size(), 1u);
  process_.engine_file.clear();
  EXPECT_TRUE(Told().empty());
}

TEST_F(EngineFileTest, ForgedValuesHarmNobody) {
  Run(4);
  file_->marks[0].ended_ns = 1;      // Before its begin.
  file_->marks[1].began_ns = ~0ull;  // In no time.
  file_->marks[2].requests = ~0ull;
  file_->running = ~0ull;
  file_->busy_ns = ~0ull;
  Write();
  std::vector<session::EngineReading> told = Told();
  ASSERT_EQ(told[0].iterations.size(), 1u);
  EXPECT_EQ(told[0].iterations[0].number, 3);
  EXPECT_EQ(told[0].running, 0u);
  EXPECT_FALSE(told[0].busy_since);
  file_->begun = ~0ull;
  Write();
  told = Told();
  EXPECT_LE(told[0].iterations.size(), wire::kEngineMarks);
}

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
