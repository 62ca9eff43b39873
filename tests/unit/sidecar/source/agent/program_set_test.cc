#include "sidecar/source/agent/program_set.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "agent/wire/file_lock.h"
#include "agent/wire/ring_writer.h"
#include "common/base/strings.h"

namespace strobe::source {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Nanos kDeviceTime = std::chrono::seconds(1);

class ProgramSetTest : public testing::Test {
 protected:
  ProgramSetTest() : path_(mkdtemp(name_.data())) { directory_ = *AgentDirectory::Own(path_); }
  ~ProgramSetTest() override { fs::remove_all(path_); }

  wire::RingFile Program(std::string_view forked_from = {}) {
    wire::RingFile::Created created = wire::RingFile::Create(
        path_, {.max_rings = 4, .ring_words = 4 * wire::kBlockWords}, forked_from);
    EXPECT_TRUE(created.file && created.file.Publish());
    return std::move(created.file);
  }
  static void Annotate(wire::RingFile& program, std::string_view text, std::uint8_t level = 1) {
    if (program.header()->rings == 0) {
      ASSERT_TRUE(program.Reserve(0, wire::kReserveWords));
      program.header()->rings = 1;
    }
    wire::RingWriter(program.ring(0), program.data(0), program.ring_words())
        .Scope(level, 1, 2, text);
  }

  std::string name_ = "/tmp/strobe-set-XXXXXX";
  const std::string path_;
  std::unique_ptr<AgentDirectory> directory_;
  std::uint64_t budget_ = 1 << 20;
};

TEST_F(ProgramSetTest, SwitchesProgramsOnAndOffAgain) {
  wire::RingFile program = Program();
  {
    ProgramSet set(*directory_, {.recorder = "capture x", .level = 2, .devices = true});
    set.Find(kDeviceTime);
    EXPECT_EQ(program.header()->control, 0u);
    EXPECT_NE(program.header()->device_control, 0u);
    set.SwitchOn();
    EXPECT_EQ(program.header()->control, 2u);
    Annotate(program, "kept");
    Annotate(program, "too fine", 3);
    set.Drain(budget_);
    const std::vector<ProgramFacts> facts = set.Facts();
    ASSERT_THAT(facts, SizeIs(1));
    EXPECT_EQ(facts[0].kept, 1u) << "what somebody else wanted at a higher level is not ours";
    EXPECT_GT(facts[0].on_ns, facts[0].born_ns);
    EXPECT_TRUE(facts[0].lives);
  }
  EXPECT_EQ(program.header()->control, 0u) << "also when it is just dropped";
  EXPECT_EQ(program.header()->device_control, 0u);
  EXPECT_FALSE(program.Leased());
}

// The rank of a job may be that of its framework, such as JAX's, whose environment tells another.
TEST_F(ProgramSetTest, WhatAProcessAnnouncedCountsMoreThanItsRingFile) {
  const wire::RingFile program = Program();
  const wire::FileHeader& header = *program.header();
  const std::string process = ProcessName(header.pid, header.process_began);
  std::optional<std::uint32_t> asked;
  ProgramSet set(*directory_, {.wants =
                                   [&](const Rank& rank) {
                                     if (rank) asked = rank->rank();
                                     return true;
                                   },
                               .announced_ranks = {{process, RankOf(5, -1, 8)}},
                               .level = 1});
  set.Find(kDeviceTime);
  set.SwitchOn();
  EXPECT_EQ(asked, 5u);
  ASSERT_THAT(set.Counted(), SizeIs(1));
  ASSERT_TRUE(set.Counted()[0]->rank());
  EXPECT_EQ(set.Counted()[0]->rank()->rank(), 5u);
}

TEST_F(ProgramSetTest, SeesThatSomebodyElseSwitchedAProgramOff) {
  const wire::RingFile program = Program();
  ProgramSet set(*directory_, {.level = 1});
  set.Find(kDeviceTime);
  set.SwitchOn();
  usleep(2000);
  set.Drain(budget_);
  program.Wish(wire::Wisher::kCapture, 0);
  usleep(20'000);
  const std::int64_t later = static_cast<std::int64_t>(wire::MonotonicNs());
  set.Drain(budget_);
  set.SwitchOff();
  const std::vector<ProgramFacts> facts = set.Facts();
  ASSERT_THAT(facts, SizeIs(1));
  EXPECT_GT(facts[0].off_ns, facts[0].on_ns);
  EXPECT_LT(facts[0].off_ns, later - 10'000'000);
}

TEST_F(ProgramSetTest, AProgramThatItsOrdersSwitchedOnIsRecordedFromItsBeginning) {
  ProgramSet set(*directory_, {.level = 1});
  set.Find(kDeviceTime);
  set.SwitchOn();
  wire::RingFile program = Program();
  program.Wish(wire::Wisher::kCapture, 1);  // The program switches itself on, by its orders.
  Annotate(program, "first words");
  set.Find(kDeviceTime);
  set.Drain(budget_);
  const std::vector<ProgramFacts> facts = set.Facts();
  ASSERT_THAT(facts, SizeIs(1));
  EXPECT_EQ(facts[0].kept, 1u);
  EXPECT_EQ(facts[0].on_ns, facts[0].born_ns);
}

TEST_F(ProgramSetTest, AProgramThatIsFoundTooLateIsSwitchedOffAtTheEnd) {
  ProgramSet set(*directory_, {.level = 1});
  set.Find(kDeviceTime);
  set.SwitchOn();
  const wire::RingFile program = Program();
  program.Wish(wire::Wisher::kCapture, 1);
  set.SwitchOff();
  EXPECT_EQ(program.header()->control, 0u);
}

TEST_F(ProgramSetTest, WhoeverCannotBeRecordedIsMissing) {
  const wire::RingFile held = Program(), old = Program(), damaged = Program(), fine = Program();
  wire::RingFile other = wire::RingFile::Open(held.path());
  ASSERT_TRUE(other.Lease());
  std::copy_n("capture \xff of somebody", 22, other.header()->recorder);
  old.header()->version = wire::kVersion - 1;
  damaged.header()->ring_words = 77;
  std::ofstream(path_ + "/text.rings") << "no ring file, and no program";
  ProgramSet set(*directory_, {.level = 1});
  set.Find(kDeviceTime);
  std::map<Outcome, std::string> missing;
  for (const v1::ProcessReport& row : set.Missing())
    missing[static_cast<Outcome>(row.outcome())] = row.message();
  EXPECT_THAT(missing, SizeIs(3));
  EXPECT_THAT(missing[Outcome::kBusy], HasSubstr("capture \xef\xbf\xbd of somebody"));
  EXPECT_THAT(missing[Outcome::kVersionMismatch], HasSubstr("version 6, this sidecar reads 7"));
  EXPECT_THAT(missing[Outcome::kProfilerStartFailed], HasSubstr("damaged"));
  EXPECT_THAT(set.Counted(), SizeIs(1));
}

TEST_F(ProgramSetTest, FilesOfTheDeadAreRemovedUnlessAnHeirLooksAtThem) {
  const std::string dead = Program().path(), inherited = Program().path();
  const int heir = open(inherited.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_TRUE(wire::TryLockByte(heir, F_RDLCK, 1));
  ProgramSet set(*directory_, {.level = 1});
  set.Find(kDeviceTime);
  EXPECT_THAT(set.Counted(), IsEmpty());
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(inherited));
  close(heir);
}

TEST_F(ProgramSetTest, TheLastRecordsOfTheDeadAreReadIfTheyAreWanted) {
  directory_->KeepEnded(std::chrono::minutes(10), 64u << 20);
  std::string path;
  {
    wire::RingFile dead = Program();
    Annotate(dead, "last words");
    path = dead.path();
  }
  {
    ProgramSet set(*directory_, {.level = 1});
    set.Find(kDeviceTime);
    EXPECT_THAT(set.Counted(), IsEmpty()) << "nobody asked to reach back";
  }
  for (int capture = 0; capture < 2; ++capture) {
    ProgramSet set(*directory_, {.level = 1, .look_back_to_ns = 0, .ended_programs = true});
    set.Find(kDeviceTime);
    set.SwitchOn();
    set.Settle(budget_);
    ASSERT_THAT(set.Counted(), SizeIs(1));
    EXPECT_EQ(set.Counted()[0]->records().kept(), 1u);
    EXPECT_TRUE(set.Facts()[0].ended_before);
    EXPECT_EQ(set.Facts()[0].on_ns, 0) << "it cannot be switched on";
    EXPECT_THAT(set.Steps(0), IsEmpty());
    EXPECT_TRUE(fs::exists(path)) << "for the next one who looks";
  }
}

TEST_F(ProgramSetTest, TruncationIsAnErrorAndNotASignal) {
  wire::RingFile program = Program();
  Annotate(program, "before");
  ProgramSet set(*directory_, {.level = 1});
  set.Find(kDeviceTime);
  set.SwitchOn();
  fs::resize_file(program.path(), wire::kHeaderBytes);
  set.Drain(budget_);
  set.SwitchOff();
  const std::vector<ProgramFacts> facts = set.Facts();
  ASSERT_THAT(facts, SizeIs(1));
  EXPECT_TRUE(facts[0].file_damaged);
}

TEST_F(ProgramSetTest, AChildKnowsItsParentAndAnExecItsSuccessor) {
  const wire::RingFile parent = Program();
  const wire::RingFile child = Program(parent.name());
  ProgramSet set(*directory_, {.level = 1});
  set.Find(kDeviceTime);
  const std::vector<ProgramFacts> facts = set.Facts();
  ASSERT_THAT(facts, SizeIs(2));
  EXPECT_EQ(facts[0].parent_lives + facts[1].parent_lives, 1);
  EXPECT_FALSE(facts[0].replaced || facts[1].replaced) << "a forked child is no successor";
  const wire::RingFile successor = Program();
  set.Find(kDeviceTime);
  int replaced = 0;
  for (const ProgramFacts& one : set.Facts()) replaced += one.replaced ? 1 : 0;
  EXPECT_GE(replaced, 1) << "of the same process and younger";
}

// The trainer of a container that restarts during the window has process ID 1 again.
TEST_F(ProgramSetTest, ARestartedContainerIsNoExec) {
  const wire::RingFile killed = Program(), restarted = Program();
  ASSERT_NE(killed.header()->process_began, 0u);
  restarted.header()->process_began = killed.header()->process_began + 1;
  ProgramSet set(*directory_, {.level = 1});
  set.Find(kDeviceTime);
  for (const ProgramFacts& one : set.Facts()) EXPECT_FALSE(one.replaced);
}

TEST_F(ProgramSetTest, AProgramWhoseFileCannotBeMappedIsMissing) {
  const wire::RingFile program = Program();
  fs::resize_file(program.path(), 100);
  ProgramSet set(*directory_, {.level = 1});
  set.Find(kDeviceTime);
  EXPECT_THAT(set.Counted(), IsEmpty());
  ASSERT_THAT(set.Missing(), SizeIs(1));
  EXPECT_THAT(set.Missing()[0].message(), HasSubstr("cannot be opened"));
}

TEST_F(ProgramSetTest, OfAContainerWhatSaysNothingOfItsOwnIsMissing) {
  setenv("STROBE_CONTAINER", "actor", 1);
  const wire::RingFile actor = Program();
  setenv("STROBE_CONTAINER", "learner", 1);
  const wire::RingFile learner = Program();
  unsetenv("STROBE_CONTAINER");
  const wire::RingFile unknown = Program();
  ProgramSet set(*directory_, {.container = "learner", .level = 1});
  set.Find(kDeviceTime);
  EXPECT_TRUE(learner.Leased());
  EXPECT_FALSE(actor.Leased() || unknown.Leased());
  ASSERT_THAT(set.Missing(), SizeIs(1));
  EXPECT_THAT(set.Missing()[0].message(), HasSubstr("STROBE_CONTAINER"));
}

TEST_F(ProgramSetTest, TheModeOfDevicesReachesProgramsAndOrders) {
  wire::RingFile beside = Program(), other = Program();
  beside.header()->process_began = 99;
  ProgramSet set(*directory_, {.devices = true,
                               .device_mode = 4,
                               .beside_kineto = {ProcessName(beside.header()->pid, 99)}});
  set.Find(kDeviceTime);
  set.SwitchOn();
  EXPECT_EQ(beside.header()->device_mode, 4u | wire::kBesideKineto);
  EXPECT_EQ(other.header()->device_mode, 4u);
  std::ifstream file(path_ + "/orders", std::ios::binary);
  wire::Orders orders{};
  ASSERT_TRUE(static_cast<bool>(file.read(reinterpret_cast<char*>(&orders), sizeof orders)));
  EXPECT_EQ(orders.devices, 1u);
  EXPECT_EQ(orders.device_mode, 4u);
}

// Only its device recording is wanted, which a new program switches on at its start by its orders.
TEST_F(ProgramSetTest, ANewbornOfWhichNoAnnotationsAreWantedIsNotLate) {
  ProgramSet set(*directory_, {.level = 0, .devices = true});
  set.Find(kDeviceTime);
  set.SwitchOn();
  const wire::RingFile newborn = Program();
  newborn.header()->device_control = 7;
  set.Find(kDeviceTime);
  const std::vector<ProgramFacts> facts = set.Facts();
  ASSERT_THAT(facts, SizeIs(1));
  EXPECT_EQ(facts[0].on_ns, facts[0].born_ns);
  EXPECT_EQ(newborn.header()->device_control, 7u) << "it goes on with the wish of its orders";
}

void RecordKernel(wire::RingFile& program, std::uint64_t end) {
  ASSERT_TRUE(program.ReserveDevice());
  wire::RingWriter(program.device_ring(), program.device_data(), program.device_words())
      .Record(wire::RecordType::kKernel, wire::KernelRecord{.end = end});
}

void ClockMoment(wire::RingFile& program, std::uint64_t lost) {
  wire::RingWriter(program.device_ring(), program.device_data(), program.device_words())
      .Record(wire::RecordType::kClock,
              wire::ClockRecord{.device_ns = wire::MonotonicNs(),
                                .ticks = wire::Ticks(program.header()->tick_kind),
                                .lost = lost});
}

TEST_F(ProgramSetTest, WhatTheFlightRecorderRecordedOfDevicesIsTakenOver) {
  wire::RingFile program = Program();
  RecordKernel(program, 1);  // It belongs to an earlier request, whose texts have other numbers.
  wire::FileHeader& header = *program.header();
  header.device_begin = program.device_ring()->head.load();
  header.uses_cuda = 1;
  header.device_control = 7;
  header.device_state = wire::DeviceState(7, wire::DevicePhase::kArmed);
  header.device_until = wire::MonotonicNs() + 5'000'000'000;
  ClockMoment(program, 3);
  RecordKernel(program, 2);
  header.device_lost = 5;
  const auto now = static_cast<std::int64_t>(wire::MonotonicNs());
  ProgramSet set(*directory_, {.level = 1, .devices = true, .look_back_to_ns = now});
  set.Find(std::chrono::seconds(30));
  EXPECT_EQ(header.device_control, 7u) << "nothing is armed again";
  EXPECT_GT(header.device_until.load(), wire::MonotonicNs() + 20'000'000'000);
  set.Drain(budget_);
  const ProgramFacts facts = set.Facts().at(0);
  EXPECT_EQ(facts.kept, 1u);
  EXPECT_EQ(facts.lost, 0u);
  EXPECT_EQ(facts.device.lost, 2u) << "those before the first moment are not missing in the trace";
  EXPECT_EQ(facts.device.phase, wire::DevicePhase::kArmed);
  const std::int64_t reached =
      set.Counted()[0]
          ->records()
          .DevicesReachedBack({.start_ns = now - 9'000'000'000, .recording_ns = now})
          .value();
  EXPECT_GT(reached, 0);
  EXPECT_LT(reached, 5'000'000'000);
  set.SwitchOff();
  EXPECT_EQ(header.device_control, 0u) << "only then CUPTI returns its last records";
}

TEST_F(ProgramSetTest, ProgramsThatAreNotRecordedKeepTheirRequests) {
  setenv("STROBE_CONTAINER", "actor", 1);
  wire::RingFile actor = Program();
  setenv("STROBE_CONTAINER", "learner", 1);
  const wire::RingFile learner = Program();
  unsetenv("STROBE_CONTAINER");
  actor.header()->device_control = 7;
  ProgramSet set(*directory_, {.container = "learner", .level = 1, .devices = true});
  set.Find(kDeviceTime);
  set.SwitchOn();
  set.SwitchOff();
  EXPECT_EQ(learner.header()->device_control, 0u);
  EXPECT_EQ(actor.header()->device_control, 7u) << "the flight recorder's";
}

TEST_F(ProgramSetTest, TheFlightRecorderMakesWayForTheFramework) {
  wire::RingFile program = Program();
  wire::FileHeader& header = *program.header();
  header.device_control = 7;
  header.device_state = wire::DeviceState(7, wire::DevicePhase::kArmed);
  header.device_until = wire::MonotonicNs() + 5'000'000'000;
  const std::string process = StrCat(header.pid, "-", header.process_began);
  ProgramSet set(
      *directory_,
      {.level = 1, .devices = true, .framework_processes = {process}, .look_back_to_ns = 0});
  set.Find(kDeviceTime);
  EXPECT_EQ(header.device_control, 0u);
  set.SwitchOff();
  EXPECT_FALSE(set.Facts().at(0).device.was_asked);
}

TEST_F(ProgramSetTest, ARequestForDevicesThatIsAlmostOverIsNotTakenOver) {
  wire::RingFile program = Program();
  wire::FileHeader& header = *program.header();
  header.device_control = 7;
  header.device_state = wire::DeviceState(7, wire::DevicePhase::kArmed);
  header.device_until = wire::MonotonicNs() + 10'000'000;
  ProgramSet set(*directory_, {.level = 1, .devices = true, .look_back_to_ns = 0});
  set.Find(kDeviceTime);
  EXPECT_EQ(header.device_control, 8u);
}

TEST_F(ProgramSetTest, TheLastKernelsOfTheDeadAreReadToo) {
  directory_->KeepEnded(std::chrono::minutes(10), 64u << 20);
  {
    wire::RingFile dead = Program();
    ClockMoment(dead, 0);
    RecordKernel(dead, wire::MonotonicNs());
  }
  ProgramSet set(*directory_,
                 {.level = 1, .devices = true, .look_back_to_ns = 0, .ended_programs = true});
  set.Find(kDeviceTime);
  set.Drain(budget_);
  const ProgramFacts facts = set.Facts().at(0);
  EXPECT_TRUE(facts.ended_before);
  EXPECT_EQ(facts.kept, 1u);
  EXPECT_GT(facts.last_record_ns, 0);
}

TEST_F(ProgramSetTest, TheWishOfADeadSidecarIsNoRecordingOfOurs) {
  const wire::RingFile program = Program();
  program.Wish(wire::Wisher::kCapture, 1);
  ProgramSet set(*directory_, {.level = 1});
  set.Find(kDeviceTime);
  set.SwitchOn();
  EXPECT_GT(set.Facts().at(0).on_ns, set.Facts().at(0).born_ns);
}

}  // namespace
}  // namespace strobe::source
