#include "sidecar/source/agent/program_switch.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "agent/wire/ticks.h"

namespace strobe::source {
namespace {

class ProgramSwitchTest : public testing::Test {
 protected:
  ProgramSwitchTest() : path_(mkdtemp(name_.data())) {
    program_ =
        wire::RingFile::Create(path_, {.max_rings = 1, .ring_words = wire::kBlockWords}, {}).file;
    EXPECT_TRUE(program_);
  }
  ~ProgramSwitchTest() override { std::filesystem::remove_all(path_); }
  wire::FileHeader& header() { return *program_.header(); }

  std::string name_ = "/tmp/strobe-switch-XXXXXX";
  const std::string path_;
  wire::RingFile program_;
};

TEST_F(ProgramSwitchTest, IsOnUntilSomebodySwitchesItOff) {
  ProgramSwitch control(program_, 2);
  control.On(4, std::nullopt);
  EXPECT_EQ(header().filter, 4u);
  EXPECT_EQ(header().control, 2u);
  control.Check();
  EXPECT_TRUE(control.is_on());
  EXPECT_GT(control.on_ns(), 0);
  const std::int64_t off_ns = control.off_ns();
  EXPECT_GE(off_ns, control.on_ns());
  program_.Wish(wire::Wisher::kCapture, 0);
  control.Check();
  EXPECT_FALSE(control.is_on());
  EXPECT_EQ(control.off_ns(), off_ns) << "it was on at the last check that said so";
}

TEST_F(ProgramSwitchTest, MayHaveBeenOnBefore) {
  ProgramSwitch control(program_, 1);
  control.On(~0u, 77);
  EXPECT_EQ(control.on_ns(), 77);
}

TEST_F(ProgramSwitchTest, WithdrawsWhatItRequested) {
  ProgramSwitch control(program_, 1);
  control.On(4, std::nullopt);
  control.WriteRecorder("capture x");
  const std::uint64_t until = wire::MonotonicNs() + 60'000'000'000;
  control.RequestAttendance(until);
  EXPECT_STREQ(header().recorder, "capture x");
  EXPECT_EQ(header().attend_until, until);
  control.Off();
  EXPECT_EQ(header().control, 0u);
  EXPECT_EQ(header().filter, ~0u);
  EXPECT_EQ(header().attend_until, 0u);
}

TEST_F(ProgramSwitchTest, LeavesALongerAttendanceToWhoAskedForIt) {
  const std::uint64_t until = wire::MonotonicNs() + 60'000'000'000;
  header().attend_until = until;
  ProgramSwitch control(program_, 1);
  control.RequestAttendance(until - 1);
  control.Off();
  EXPECT_EQ(header().attend_until, until);
}

}  // namespace
}  // namespace strobe::source
