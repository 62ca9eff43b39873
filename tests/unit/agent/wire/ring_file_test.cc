#include "agent/wire/ring_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "agent/wire/ring_reader.h"
#include "agent/wire/ring_writer.h"

namespace strobe::wire {
namespace {

namespace fs = std::filesystem;

class RingFileTest : public testing::Test {
 protected:
  RingFileTest() : directory_(mkdtemp(name_.data())) {}
  ~RingFileTest() override { fs::remove_all(directory_); }

  std::string name_ = "/tmp/strobe-rings-XXXXXX";
  RingFile Create(const RingFileShape& shape, std::string_view forked_from = {}) {
    RingFile::Created created = RingFile::Create(directory_, shape, forked_from);
    EXPECT_TRUE(created.file && created.file.Publish());
    return std::move(created.file);
  }

  const std::string directory_;
  RecordBuffer buffer_{};
  const RingFileShape small_{.max_rings = 4, .ring_words = 4 * kBlockWords};
};

TEST_F(RingFileTest, BothEndsSeeTheSame) {
  RingFile program = Create(small_);
  ASSERT_TRUE(program);
  const RingFile sidecar = RingFile::Open(program.path());
  ASSERT_TRUE(sidecar);
  EXPECT_EQ(sidecar.header()->pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(sidecar.max_rings(), 4u);
  ASSERT_TRUE(program.Reserve(2, kReserveWords));
  RingReader reader(sidecar.ring(2), sidecar.data(2), sidecar.ring_words());
  RingWriter(program.ring(2), program.data(2), program.ring_words()).Scope(1, 5, 6, "hello");
  EXPECT_EQ(
      reader.Drain(buffer_, [](const ScopeRecord& record) { EXPECT_EQ(record.text, "hello"); }),
      1u);
  sidecar.header()->control = 2;
  EXPECT_EQ(program.header()->control, 2u);
}

TEST_F(RingFileTest, CostsNothingUntilARingIsBegun) {
  const RingFile file = Create({});
  ASSERT_TRUE(file);
  struct stat status = {};
  ASSERT_EQ(stat(file.path().c_str(), &status), 0);
  EXPECT_GT(status.st_size, 100 << 20);
  EXPECT_LE(status.st_blocks * 512, 64 << 10);
}

TEST_F(RingFileTest, TellsWhetherTheProgramLivesAndKeepsWhatItWrote) {
  std::string path;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    RingFile file = Create(small_);
    file.Reserve(0, kReserveWords);
    RingWriter(file.ring(0), file.data(0), file.ring_words()).Scope(1, 1, 2, "last words");
    const std::string named = file.path();
    (void)!write(ready[1], named.c_str(), named.size() + 1);
    pause();
    _exit(0);
  }
  char text[4096] = {};
  ASSERT_GT(read(ready[0], text, sizeof text), 0);
  const RingFile sidecar = RingFile::Open(text);
  ASSERT_TRUE(sidecar);
  EXPECT_TRUE(sidecar.ProgramLives());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(sidecar.ProgramLives());
  RingReader reader(sidecar.ring(0), sidecar.data(0), sidecar.ring_words());
  reader.SkipToOldest();
  EXPECT_EQ(reader.Drain(buffer_,
                         [](const ScopeRecord& record) { EXPECT_EQ(record.text, "last words"); }),
            1u);
}

TEST_F(RingFileTest, RefusesWhatIsNotOursOrDoesNotFit) {
  EXPECT_FALSE(RingFile::Open(directory_ + "/none"));
  std::ofstream(directory_ + "/text") << std::string(10'000, 'x');
  EXPECT_FALSE(RingFile::Open(directory_ + "/text"));
  std::ofstream(directory_ + "/short") << "x";
  EXPECT_FALSE(RingFile::Open(directory_ + "/short"));
  EXPECT_EQ(RingFile::Create("/proc/none", small_).step, FailureStep::kCreate);
  const auto damaged = [&](auto change) {
    RingFile file = Create(small_);
    change(*file.header());
    const bool opened{RingFile::Open(file.path())};
    fs::remove(file.path());
    return opened;
  };
  EXPECT_TRUE(damaged([](FileHeader&) {}));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.version = kVersion + 1; }));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.tick_kind = static_cast<TickKind>(7); }));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.max_rings = 5; }));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.ring_words = 3000; }));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.ring_stride = 1ull << 60; }));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.rings_offset = 1ull << 60; }));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.rings_offset = 0; }));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.device_words = 3000; }));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.device_words *= 2; }));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.device_offset = 0; }));
  EXPECT_FALSE(damaged([](FileHeader& h) { h.device_offset = ~0ull - 127; }));
}

TEST_F(RingFileTest, NobodySeesAFileThatIsNotPublished) {
  const RingFile::Created created = RingFile::Create(directory_, small_);
  ASSERT_TRUE(created.file);
  EXPECT_FALSE(RingFile::Open(created.file.path()));
}

TEST_F(RingFileTest, OneSidecarAtATimeHasTheLease) {
  const RingFile program = Create(small_);
  RingFile first = RingFile::Open(program.path()), second = RingFile::Open(program.path());
  EXPECT_FALSE(program.Leased());
  EXPECT_TRUE(first.Lease());
  EXPECT_FALSE(second.Lease());
  EXPECT_TRUE(program.Leased());
  first = RingFile();
  EXPECT_TRUE(second.Lease()) << "a sidecar that is gone holds nothing";
  second = RingFile();
  EXPECT_FALSE(program.Leased());
}

TEST_F(RingFileTest, TheHighestWishCounts) {
  const RingFile file = Create(small_);
  file.Wish(Wisher::kIdle, 2);
  file.Wish(Wisher::kCapture, 1);
  EXPECT_EQ(file.header()->control, 2u);
  file.Wish(Wisher::kCapture, 3);
  EXPECT_EQ(file.header()->control, 3u);
  file.Wish(Wisher::kCapture, 0);
  EXPECT_EQ(file.header()->control, 2u) << "nobody switches off what another one asked for";
  file.Wish(Wisher::kIdle, 0);
  EXPECT_EQ(file.header()->control, 0u);
}

TEST_F(RingFileTest, AnotherFileUnderItsDescriptorIsLeftAlone) {
  const std::string path = Create(small_).path();
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    RingFile file = Create(small_);
    // The program closes all descriptors; a file that it opens then gets the ring file's number.
    const int pipe_end = fcntl(told[1], F_DUPFD, 500);
    for (int fd = 3; fd < 500; ++fd) close(fd);
    const std::string other = directory_ + "/own";
    const int own = open(other.c_str(), O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 20; ++i) (void)!dup(own);
    const bool ours = file.OwnsDescriptor();
    const bool reserved = file.Reserve(0, kReserveWords) && file.ReserveDevice();
    const std::string words =
        std::string(ours ? "1" : "0") + (reserved ? "1" : "0") + file.path() + '\0';
    (void)!write(pipe_end, words.data(), words.size());
    pause();
    _exit(0);
  }
  char words[4096] = {};
  ASSERT_GT(read(told[0], words, sizeof words), 0);
  EXPECT_EQ(std::string(words, 2), "01") << "it opened its own file again";
  EXPECT_EQ(fs::file_size(directory_ + "/own"), 0u) << "no byte of the program's file was touched";
  EXPECT_TRUE(RingFile::Open(words + 2).ProgramLives()) << "its mapping holds the lock";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(RingFile::Open(words + 2).ProgramLives());
}

TEST_F(RingFileTest, AHeirIsSeenAndItsParentsDeathToo) {
  RingFile file = Create(small_);
  const std::string path = file.path();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (!file.Inherit()) _exit(1);
    (void)!write(ready[1], "", 1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const RingFile sidecar = RingFile::Open(path);
  EXPECT_TRUE(sidecar.ProgramLives());
  EXPECT_TRUE(sidecar.HasHeirs());
  file.Close();
  EXPECT_FALSE(sidecar.ProgramLives()) << "the child does not keep its parent alive";
  EXPECT_TRUE(sidecar.HasHeirs());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(sidecar.HasHeirs());
}

TEST_F(RingFileTest, WithoutAddressSpaceItSaysSo) {
#ifdef STROBE_SANITIZED
  GTEST_SKIP() << "sanitizers take terabytes of address space";
#endif
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit little{256u << 20, before.rlim_max};
  if (setrlimit(RLIMIT_AS, &little) != 0) GTEST_SKIP();
  const RingFile::Created created = RingFile::Create(directory_, {});
  setrlimit(RLIMIT_AS, &before);
  EXPECT_FALSE(created.file);
  EXPECT_EQ(created.step, FailureStep::kMap);
  EXPECT_EQ(created.error, ENOMEM);
  EXPECT_TRUE(fs::is_empty(directory_)) << "nothing is left behind";
}

TEST_F(RingFileTest, AFileBeyondTheLimitIsRefusedAndRaisesNoSignal) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{1u << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const RingFile::Created large = RingFile::Create(directory_, {});
  const RingFile::Created small =
      RingFile::Create(directory_, {.max_rings = 1, .ring_words = 4096, .device_words = 4096});
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(large.file) << "SIGXFSZ would have ended this process";
  EXPECT_EQ(large.step, FailureStep::kCreate);
  EXPECT_EQ(large.error, EFBIG);
  EXPECT_TRUE(small.file);
}

// A record whose content is derived from its number, so that the reader can verify it.
void WriteProof(RingWriter& writer, std::uint64_t number) {
  writer.Scope(1, number, number * 3,
               std::string(number % 50, static_cast<char>('a' + number % 26)));
}

bool Proves(const ScopeRecord& record) {
  const std::uint64_t number = record.begin;
  return record.end == number * 3 &&
         record.text == std::string(number % 50, static_cast<char>('a' + number % 26));
}

TEST_F(RingFileTest, WritersMayBeKilledAtAnyPoint) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  for (int round = 0; round < 30; ++round) {
    RingFile file = Create(small_);
    RingReader reader(file.ring(0), file.data(0), file.ring_words());
    const pid_t child = fork();
    if (child == 0) {
      RingWriter writer(file.ring(0), file.data(0), file.ring_words());
      for (std::uint64_t number = 0;; ++number) WriteProof(writer, number);
    }
    std::uint64_t seen = 0, last = 0;
    const auto check = [&](const ScopeRecord& record) {
      ASSERT_TRUE(Proves(record)) << record.begin;
      ASSERT_TRUE(seen == 0 || record.begin > last);
      last = record.begin;
      ++seen;
    };
    for (int i = static_cast<int>(random() % 20); i > 0; --i) reader.Drain(buffer_, check);
    usleep(static_cast<useconds_t>(random() % 3000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    reader.Drain(buffer_, check);
    const std::uint64_t made = file.ring(0)->made.load();
    EXPECT_EQ(seen + reader.lost() + reader.unseen(), made) << "each is read, lost or still there";
    // If the writer is killed between counting and publishing a record, that record is never
    // visible.
    EXPECT_GE(last + 2, made) << "the last whole record is there";
    // A thread that takes the ring over continues where the dead one stopped.
    RingWriter next(file.ring(0), file.data(0), file.ring_words());
    WriteProof(next, made);
    EXPECT_EQ(reader.Drain(buffer_, check), 1u);
    fs::remove(file.path());
  }
}

TEST_F(RingFileTest, ReadersMayBeKilledAtAnyPoint) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  RingFile file = Create(small_);
  RingWriter writer(file.ring(0), file.data(0), file.ring_words());
  std::uint64_t number = 0;
  for (int round = 0; round < 30; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      RingReader reader(file.ring(0), file.data(0), file.ring_words());
      for (;;) {
        reader.Drain(buffer_, [](const ScopeRecord& record) {
          if (!Proves(record)) _exit(3);
        });
      }
    }
    for (unsigned i = static_cast<unsigned>(random() % 20'000); i > 0; --i)
      WriteProof(writer, number++);
    EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "a record was torn";
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  // Nothing has read the ring to its end; the next reader must find the newest records intact.
  RingReader reader(file.ring(0), file.data(0), file.ring_words());
  reader.SkipToOldest();
  std::uint64_t last = 0;
  EXPECT_GT(reader.Drain(buffer_,
                         [&](const ScopeRecord& record) {
                           ASSERT_TRUE(Proves(record));
                           last = record.begin;
                         }),
            0u);
  EXPECT_EQ(last, number - 1);
  EXPECT_EQ(reader.lost(), 0u);
}

class JobRanksTest : public testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override { Clear(); }
  static void Clear() {
    for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID",
                             "TPU_WORKER_ID", "JAX_PROCESS_ID"})
      unsetenv(name);
  }
};

TEST_F(JobRanksTest, NothingIsToldInAnEmptyEnvironment) {
  const JobRanks ranks = OwnJobRanks();
  EXPECT_EQ(ranks.rank, -1);
  EXPECT_EQ(ranks.local_rank, -1);
  EXPECT_EQ(ranks.world_size, -1);
}

TEST_F(JobRanksTest, TheFirstVariableThatIsANumberCounts) {
  setenv("RANK", "x", 1);
  setenv("SLURM_PROCID", "12", 1);
  setenv("TPU_WORKER_ID", "3", 1);
  setenv("LOCAL_RANK", "0", 1);
  setenv("SLURM_LOCALID", "4", 1);
  setenv("WORLD_SIZE", "16", 1);
  const JobRanks ranks = OwnJobRanks();
  EXPECT_EQ(ranks.rank, 12);
  EXPECT_EQ(ranks.local_rank, 0);
  EXPECT_EQ(ranks.world_size, 16);
}

TEST_F(JobRanksTest, TextThatIsNoNumberIsLeftOut) {
  for (const char* text : {"", "-1", "1 ", "0x1", "1234567890"}) {
    setenv("RANK", text, 1);
    EXPECT_EQ(OwnJobRanks().rank, -1) << text;
  }
}

TEST(ProcessBegan, IsReadBehindAnyName) {
  EXPECT_EQ(BeganIn("7 (a) b (S) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654321987 1 1"),
            987654321987u);
  EXPECT_EQ(BeganIn("7 (a) S 1"), 0u);
  EXPECT_EQ(BeganIn(""), 0u);
  EXPECT_GT(ProcessBegan(), 0u);
}

}  // namespace

}  // namespace strobe::wire
