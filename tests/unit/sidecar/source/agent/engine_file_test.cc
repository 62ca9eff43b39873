#include "sidecar/source/agent/engine_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "agent/wire/engine_file.h"

namespace strobe::source {
namespace {

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

}  // namespace
}  // namespace strobe::source
