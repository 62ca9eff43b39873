#include "agent/evidence/evidence_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>

#include "agent/wire/evidence_file.h"
#include "agent/wire/file_lock.h"

namespace strobe::agent {
namespace {

// What a sidecar sees of the file.
struct SeenEvidence {
  explicit SeenEvidence(const std::string& path) : file(open(path.c_str(), O_RDWR | O_CLOEXEC)) {}
  ~SeenEvidence() { close(file); }
  SeenEvidence(const SeenEvidence&) = delete;
  SeenEvidence& operator=(const SeenEvidence&) = delete;

  template <typename Value>
  Value At(std::size_t offset) const {
    Value value{};
    (void)!pread(file, &value, sizeof value, static_cast<off_t>(offset));  // It may be empty yet.
    return value;
  }
  template <typename Value>
  void Set(std::size_t offset, Value value) const {
    EXPECT_EQ(pwrite(file, &value, sizeof value, static_cast<off_t>(offset)),
              static_cast<ssize_t>(sizeof value));
  }
  const int file;
};

template <typename Condition>
bool Eventually(const Condition& condition) {
  for (int i = 0; i < 3000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

// This process has no interpreter, so that it answers without stacks, and no recorder. All is in
// one process that is forked, because a thread of this kind stays to the end.
TEST(EvidenceThread, BeatsAnswersAndLeavesItsFile) {
  std::string directory = testing::TempDir() + "evidence_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/7-1.evidence";
  const pid_t child = fork();
  if (child == 0) {
    const char* const why = StartEvidence(directory.c_str(), "7-1", 11);
    TellPosition({.rank = 3, .local_rank = 1, .world_size = 8, .has_groups = true});
    if (why != nullptr || CheckStacks("f") == nullptr) _exit(1);
    alarm(300);  // It does not outlive a test that fails.
    for (;;) pause();
  }
  ASSERT_GT(child, 0);
  using Header = wire::EvidenceHeader;
  ASSERT_TRUE(Eventually([&] {
    return std::filesystem::exists(path) &&
           SeenEvidence(path).At<std::uint64_t>(offsetof(Header, magic)) == wire::kEvidenceMagic;
  }));
  const SeenEvidence seen(path);
  EXPECT_EQ(seen.At<std::uint32_t>(offsetof(Header, pid)), static_cast<std::uint32_t>(child));
  EXPECT_TRUE(Eventually([&] { return seen.At<std::int32_t>(offsetof(Header, rank)) == 3; }));
  EXPECT_EQ(seen.At<std::uint32_t>(offsetof(Header, has_stacks)), 0u);
  EXPECT_NE(seen.At<char>(offsetof(Header, refusal)), '\0');
  EXPECT_TRUE(wire::ByteIsLocked(seen.file, wire::kEvidenceLifeByte));
  const auto beat = seen.At<std::uint64_t>(offsetof(Header, beat_ns));
  EXPECT_TRUE(Eventually([&] { return seen.At<std::uint64_t>(offsetof(Header, beat_ns)) > beat; }));

  seen.Set<std::uint64_t>(offsetof(Header, between_ns), 1'000'000);
  seen.Set<std::uint32_t>(offsetof(Header, wants), wire::kWantStacks | wire::kWantCollectives);
  seen.Set<std::uint64_t>(offsetof(Header, order), 5);
  EXPECT_TRUE(Eventually([&] { return seen.At<std::uint64_t>(offsetof(Header, answered)) == 5; }));
  EXPECT_EQ(seen.At<std::uint32_t>(offsetof(Header, flight)),
            static_cast<std::uint32_t>(wire::FlightState::kNoRecorder));
  EXPECT_FALSE(std::filesystem::exists(directory + "/7-1.a.stacks"));

  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(wire::ByteIsLocked(seen.file, wire::kEvidenceLifeByte));
  EXPECT_EQ(seen.At<std::int32_t>(offsetof(Header, world_size)), 8) << "the file outlives it";
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace strobe::agent
