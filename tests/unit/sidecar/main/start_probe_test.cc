#include "sidecar/main/start_probe.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

namespace strobe {
namespace {

using Arguments = std::vector<const char*>;

std::optional<int> ProbeWith(Arguments arguments) {
  arguments.insert(arguments.begin(), "strobe-sidecar");
  return AnswerProbe(static_cast<int>(arguments.size()), arguments.data());
}

std::string StartedFileWith(Arguments arguments) {
  arguments.insert(arguments.begin(), "strobe-sidecar");
  return StartedFileOf(static_cast<int>(arguments.size()), arguments.data());
}

class StartProbeTest : public testing::Test {
 protected:
  StartProbeTest() { std::filesystem::remove(file_); }
  ~StartProbeTest() override { std::filesystem::remove(file_); }
  const std::string file_ = testing::TempDir() + "strobe_start_probe_" + std::to_string(getpid());
};

TEST_F(StartProbeTest, SucceedsOnceTheSidecarHasStarted) {
  EXPECT_EQ(ProbeWith({"--is-started", file_.c_str()}), 1);
  MarkStarted("");
  EXPECT_EQ(ProbeWith({"--is-started", file_.c_str()}), 1);
  MarkStarted(file_);
  EXPECT_EQ(ProbeWith({"--is-started", file_.c_str()}), 0);
  MarkStarted(file_);
  EXPECT_EQ(ProbeWith({"--is-started", file_.c_str()}), 0) << "the container was restarted";
}

TEST_F(StartProbeTest, AFileThatCannotBeWrittenFailsTheProbeOnly) {
  MarkStarted("/nowhere/started");
  EXPECT_EQ(ProbeWith({"--is-started", "/nowhere/started"}), 1);
}

TEST_F(StartProbeTest, OtherCommandLinesAreNoProbe) {
  EXPECT_EQ(ProbeWith({}), std::nullopt);
  EXPECT_EQ(ProbeWith({"--is-started"}), std::nullopt);
  EXPECT_EQ(ProbeWith({file_.c_str(), "--is-started"}), std::nullopt);
  EXPECT_EQ(ProbeWith({"--is-started", file_.c_str(), "--log-json"}), std::nullopt);
}

TEST_F(StartProbeTest, TheFileIsFoundAmongFlagsThatAreNotKnown) {
  EXPECT_EQ(StartedFileWith({"--of-a-newer-operator=1", "--started-file=/s", "--other"}), "/s");
  EXPECT_EQ(StartedFileWith({"--started-file", "/s"}), "") << "injection writes it with =";
  EXPECT_EQ(StartedFileWith({}), "");
}

}  // namespace
}  // namespace strobe
