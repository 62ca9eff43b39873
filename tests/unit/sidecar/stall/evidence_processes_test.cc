#include "sidecar/stall/evidence_processes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "agent/wire/file_lock.h"

namespace strobe::stall {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class EvidenceProcesses : public testing::Test {
 protected:
  EvidenceProcesses() {
    std::string path = testing::TempDir() + "evidence_processes_XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
    directory_ = OpenEvidenceDirectory(path_);
  }
  ~EvidenceProcesses() override { std::filesystem::remove_all(path_); }

  // As the agent makes it. It is locked as long as the result lives.
  FileDescriptor AddEvidenceFile(const std::string& stem, std::int32_t rank, std::uint64_t beat_ns,
                                 std::uint64_t began = 1) {
    FileDescriptor file(
        open((path_ + "/" + stem + ".evidence").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    wire::EvidenceHeader header{};
    header.magic = wire::kEvidenceMagic;
    header.version = wire::kEvidenceVersion;
    header.pid = 7;
    header.began = began;
    header.rank = rank;
    header.local_rank = -1;
    header.world_size = 8;
    header.beat_ns = beat_ns;
    std::strcpy(header.refusal, "this version of Python\nis not known");
    EXPECT_EQ(pwrite(file.get(), &header, sizeof header, 0), ssize_t{sizeof header});
    EXPECT_EQ(ftruncate(file.get(), wire::kEvidenceBytes), 0);
    EXPECT_TRUE(wire::TryLockByte(file.get(), F_WRLCK, wire::kEvidenceLifeByte));
    return file;
  }
  void Leave(const std::string& name, const std::string& content) const {
    std::ofstream(path_ + "/" + name) << content;
  }
  bool Has(const std::string& name) const { return std::filesystem::exists(path_ + "/" + name); }

  std::string path_;
  FileDescriptor directory_;
};

TEST_F(EvidenceProcesses, AreReadAndOrdered) {
  const FileDescriptor program = AddEvidenceFile("7-1", 3, 50);
  std::vector<EvidenceProcess> processes = ReadEvidenceProcesses(directory_);
  ASSERT_THAT(processes, SizeIs(1));
  EvidenceProcess& process = processes[0];
  EXPECT_EQ(process.stem, "7-1");
  EXPECT_EQ(process.rank, 3);
  EXPECT_EQ(process.world_size, 8);
  EXPECT_TRUE(process.lives);
  EXPECT_EQ(process.refusal, "this version of Python is not known");
  OrderEvidence(process, {.number = 9, .wants = 3, .between_looks = Nanos{77}});
  wire::EvidenceHeader seen{};
  ASSERT_EQ(pread(program.get(), &seen, sizeof seen, 0), ssize_t{sizeof seen});
  EXPECT_EQ(seen.order.load(), 9u);
  EXPECT_EQ(seen.wants.load(), 3u);
  EXPECT_EQ(seen.between_ns.load(), 77u);
  EXPECT_EQ(seen.rank.load(), 3) << "what the program wrote stays";
}

TEST_F(EvidenceProcesses, AreGoneWithTheirLock) {
  { const FileDescriptor program = AddEvidenceFile("7-1", 3, 50); }
  std::vector<EvidenceProcess> processes = ReadEvidenceProcesses(directory_);
  ASSERT_THAT(processes, SizeIs(1));
  EXPECT_FALSE(processes[0].lives);
  EXPECT_FALSE(IsSilent(processes[0], 1'000'000'000'000)) << "it is gone";
}

TEST_F(EvidenceProcesses, AreSilentWithoutABeat) {
  const FileDescriptor program = AddEvidenceFile("7-1", 3, 1'000'000'000);
  const std::vector<EvidenceProcess> processes = ReadEvidenceProcesses(directory_);
  ASSERT_THAT(processes, SizeIs(1));
  EXPECT_FALSE(IsSilent(processes[0], 1'000'000'000 + kSilentNs - 1));
  EXPECT_TRUE(IsSilent(processes[0], 1'000'000'001 + kSilentNs));
}

TEST_F(EvidenceProcesses, AreNothingThatAHostileProgramMakes) {
  Leave("short.evidence", "TROBEVD1");
  Leave("zeros.evidence", std::string(wire::kEvidenceBytes, '\0'));
  ASSERT_EQ(mkfifo((path_ + "/fifo.evidence").c_str(), 0666), 0);
  std::filesystem::create_symlink("/dev/zero", path_ + "/link.evidence");
  std::filesystem::create_directory(path_ + "/folder.evidence");
  EXPECT_THAT(ReadEvidenceProcesses(directory_), IsEmpty());
}

TEST_F(EvidenceProcesses, GiveTheirFilesUpToALimit) {
  const FileDescriptor program = AddEvidenceFile("7-1", 3, 50);
  Leave("7-1.a.stacks", "0123456789");
  const std::vector<EvidenceProcess> processes = ReadEvidenceProcesses(directory_);
  ASSERT_THAT(processes, SizeIs(1));
  EXPECT_EQ(ReadEvidenceFile(directory_, processes[0], "a.stacks", 10), "0123456789");
  EXPECT_EQ(ReadEvidenceFile(directory_, processes[0], "a.stacks", 9), "");
  EXPECT_EQ(ReadEvidenceFile(directory_, processes[0], "b.stacks", 10), "");
  std::filesystem::create_symlink("/etc/hostname", path_ + "/7-1.b.stacks");
  EXPECT_EQ(ReadEvidenceFile(directory_, processes[0], "b.stacks", 1000), "");
}

TEST_F(EvidenceProcesses, HaveTheirNumbersInTheJob) {
  const FileDescriptor old = AddEvidenceFile("5-1", 1, 50, 10),
                       young = AddEvidenceFile("6-2", 1, 60, 20);
  const FileDescriptor launcher = AddEvidenceFile("4-1", -1, 60, 5);
  { const FileDescriptor dead = AddEvidenceFile("8-3", 1, 70, 30); }
  const std::map<int, EvidenceProcess> by_rank = ByRank(ReadEvidenceProcesses(directory_));
  ASSERT_THAT(by_rank, SizeIs(1)) << "a launcher has no number";
  EXPECT_EQ(by_rank.at(1).stem, "6-2") << "the newest that lives";
}

EvidenceProcess Joined(const char* stem, std::uint64_t began, int world_size = 8) {
  EvidenceProcess process;
  process.stem = stem;
  process.began = began;
  process.rank = 1;
  process.world_size = world_size;
  process.lives = true;
  process.has_groups = world_size > 0;
  return process;
}

template <typename... Process>
std::map<int, EvidenceProcess> RanksOf(Process... process) {
  std::vector<EvidenceProcess> processes;
  (processes.push_back(std::move(process)), ...);
  return ByRank(std::move(processes));
}

// A loader that was started anew has its parent's rank in its environment.
TEST(ByRank, TheOneThatHasJoinedTheJobComesBeforeItsChildren) {
  for (const bool parent_is_younger : {false, true}) {
    const auto by_rank =
        RanksOf(Joined("trainer", parent_is_younger ? 30 : 10), Joined("loader", 20, 0));
    ASSERT_THAT(by_rank, SizeIs(1));
    EXPECT_EQ(by_rank.at(1).stem, "trainer");
    EXPECT_FALSE(by_rank.at(1).has_rival);
  }
}

TEST(ByRank, TheLargerOfTwoJobsIsMeant) {
  const auto by_rank = RanksOf(Joined("trainer", 10), Joined("evaluation", 20, 2));
  EXPECT_EQ(by_rank.at(1).stem, "trainer");
  EXPECT_FALSE(by_rank.at(1).has_rival);
}

TEST(ByRank, TwoJobsOfOneSizeAreRivals) {
  EXPECT_TRUE(RanksOf(Joined("actor", 10), Joined("critic", 20)).at(1).has_rival);
  const auto larger = RanksOf(Joined("actor", 10), Joined("critic", 20), Joined("trainer", 30, 16));
  EXPECT_EQ(larger.at(1).stem, "trainer");
  EXPECT_FALSE(larger.at(1).has_rival);
  for (const bool lingers : {false, true}) {
    EvidenceProcess before = Joined("before", 30);
    before.lives = lingers;
    before.has_ended = lingers;
    const auto restarted = RanksOf(std::move(before), Joined("now", 20));
    EXPECT_EQ(restarted.at(1).stem, "now");
    EXPECT_FALSE(restarted.at(1).has_rival);
  }
}

// After an elastic restart a pod's processes may have other ranks.
TEST(ByRank, WhatEndedBeforeOthersBeganIsLeftOut) {
  for (const bool before_it : {true, false}) {
    EvidenceProcess ended = Joined("ended", 10), now = Joined("now", 900);
    ended.lives = false;
    ended.rank = 0;
    ended.beat_ns = before_it ? BeganNs(now) - 1 : BeganNs(now) + 1;
    const auto by_rank = RanksOf(std::move(ended), std::move(now));
    EXPECT_EQ(by_rank.contains(0), !before_it);
    EXPECT_TRUE(by_rank.contains(1));
  }
}

TEST_F(EvidenceProcesses, AreCountedWhereNoneHasANumber) {
  const FileDescriptor second = AddEvidenceFile("6-2", -1, 60, 20);
  const FileDescriptor first = AddEvidenceFile("5-1", -1, 60, 10);
  const std::map<int, EvidenceProcess> by_rank = ByRank(ReadEvidenceProcesses(directory_));
  ASSERT_THAT(by_rank, SizeIs(2));
  EXPECT_EQ(by_rank.at(0).stem, "5-1");
  EXPECT_EQ(by_rank.at(1).stem, "6-2");
}

TEST_F(EvidenceProcesses, OldOnesAreRemovedWithAllTheyLeft) {
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  const FileDescriptor alive = AddEvidenceFile("1-1", 0, 1);
  { const FileDescriptor dead = AddEvidenceFile("2-1", 1, 1); }
  { const FileDescriptor fresh = AddEvidenceFile("3-1", 2, kHour - 1); }
  for (const char* name :
       {"2-1.groups", "2-1.exception", "2-1.a.fr", "2-1.other", ".2-1.b.fr.new", "3-1.groups"})
    Leave(name, "x");
  RemoveOldEvidence(directory_, kHour);
  EXPECT_TRUE(Has("1-1.evidence") && Has("3-1.evidence") && Has("3-1.groups"));
  EXPECT_FALSE(Has("2-1.evidence") || Has("2-1.groups") || Has("2-1.exception") || Has("2-1.a.fr"));
  EXPECT_FALSE(Has(".2-1.b.fr.new")) << "it was killed while it wrote";
  EXPECT_TRUE(Has("2-1.other")) << "it is none of ours";
}

TEST_F(EvidenceProcesses, FewOfTheEndedAreKept) {
  for (int i = 0; i < 100; ++i) AddEvidenceFile(std::to_string(i) + "-1", i, 1000 + i);
  RemoveOldEvidence(directory_, 2000);
  EXPECT_THAT(ReadEvidenceProcesses(directory_), SizeIs(64));
  EXPECT_TRUE(Has("99-1.evidence"));
  EXPECT_FALSE(Has("0-1.evidence"));
}

}  // namespace
}  // namespace strobe::stall
