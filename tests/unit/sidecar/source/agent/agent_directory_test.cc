#include "sidecar/source/agent/agent_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "agent/recorder/directory_files.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "common/text/safe_text.h"

namespace strobe::source {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class AgentDirectoryTest : public testing::Test {
 protected:
  AgentDirectoryTest() : root_(mkdtemp(name_.data())) {}
  ~AgentDirectoryTest() override { fs::remove_all(root_); }

  wire::RingFile Program() {
    wire::RingFile::Created created =
        wire::RingFile::Create(path_, {.max_rings = 4, .ring_words = 4 * wire::kBlockWords});
    EXPECT_TRUE(created.file && created.file.Publish());
    return std::move(created.file);
  }

  std::string name_ = "/tmp/strobe-agent-XXXXXX";
  const std::string root_;
  const std::string path_ = root_ + "/deep/agent";
};

TEST_F(AgentDirectoryTest, NobodyElseRemovesFilesFromADirectoryThatItMade) {
  struct stat info = {};
  ASSERT_TRUE(AgentDirectory::Own(path_).ok());
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 01777u);
}

TEST_F(AgentDirectoryTest, HasOneOwner) {
  auto owner = AgentDirectory::Own(path_);
  ASSERT_TRUE(owner.ok()) << owner.status();
  const auto second = AgentDirectory::Own(path_);
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another sidecar serves"));
  EXPECT_TRUE(AgentDirectory::Join(path_, 1).ok()) << "guests are welcome";
  owner->reset();
  EXPECT_TRUE(AgentDirectory::Own(path_).ok());
}

TEST_F(AgentDirectoryTest, AnOwnerRemovesTracesThatADeadOneDidNotRead) {
  fs::create_directories(path_);
  const auto write = [&](const char* name) {
    std::ofstream(path_ + "/" + name) << "x";
    return path_ + "/" + name;
  };
  const std::string finished = write("7-1-5.xplane.pb"), torch = write("7-1-5.pt.trace.json"),
                    unfinished = write(".7-1-6.xplane.pb.new"), other = write("7-1.process");
  ASSERT_TRUE(AgentDirectory::Own(path_).ok());
  EXPECT_FALSE(fs::exists(finished));
  EXPECT_FALSE(fs::exists(torch));
  EXPECT_TRUE(fs::exists(unfinished)) << "the program is writing it";
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(AgentDirectoryTest, AnOwnerSwitchesOffWhatADeadOneLeftOn) {
  fs::create_directories(path_);
  const wire::RingFile left = Program(), held = Program();
  for (const wire::RingFile* file : {&left, &held}) {
    file->Wish(wire::Wisher::kCapture, 3);
    file->header()->device_control = 5;
  }
  wire::RingFile guest = wire::RingFile::Open(held.path());
  ASSERT_TRUE(guest.Lease());
  ASSERT_TRUE(AgentDirectory::Own(path_).ok());
  EXPECT_EQ(left.header()->control, 0u);
  EXPECT_EQ(left.header()->device_control, 0u);
  EXPECT_EQ(held.header()->control, 3u) << "a guest is recording this one";
}

TEST_F(AgentDirectoryTest, OrdersReachProgramsThatBeginLater) {
  const auto owner = AgentDirectory::Own(path_);
  ASSERT_TRUE(owner.ok());
  EXPECT_EQ(agent::ReadOrders(path_).filter, ~0u);
  wire::Orders orders = NoOrders();
  orders.wishes = {2, 0, 1};
  orders.devices = 1;
  (*owner)->Order(orders);
  const wire::RingFile program = Program();
  agent::Obey(agent::ReadOrders(path_), program);
  EXPECT_EQ(program.header()->control, 2u);
  EXPECT_EQ(program.header()->device_control, 1u);
  (*owner)->Order(NoOrders());
  agent::Obey(agent::ReadOrders(path_), program);
  EXPECT_EQ(program.header()->control, 0u);
  EXPECT_FALSE(fs::exists(path_ + "/orders"));
}

// Regression: a FIFO in the place of a file stopped the sidecar for ever.
TEST_F(AgentDirectoryTest, IsNotStoppedByWhatOthersPutThere) {
  fs::create_directories(path_);
  const std::string failures = path_ + "/failures", orders_draft = path_ + "/orders.new";
  ASSERT_EQ(mkfifo(failures.c_str(), 0666), 0);
  Notification owned;
  bool hung = false;
  std::thread rescue([&] {
    hung = !owned.WaitFor(std::chrono::seconds(10));
    if (hung) close(open(failures.c_str(), O_RDONLY | O_NONBLOCK));
  });
  const auto owner = AgentDirectory::Own(path_);
  owned.Notify();
  rescue.join();
  ASSERT_TRUE(owner.ok());
  EXPECT_FALSE(hung);
  ASSERT_EQ(mkfifo(orders_draft.c_str(), 0666), 0);
  const FileDescriptor reader(open(orders_draft.c_str(), O_RDWR | O_CLOEXEC));
  wire::Orders orders = NoOrders();
  orders.devices = 1;
  (*owner)->Order(orders);
  EXPECT_TRUE(fs::is_regular_file(path_ + "/orders"));
  EXPECT_EQ(agent::ReadOrders(path_).devices, 1u);
}

// Regression: the operator could not read what the sidecar told of it.
TEST_F(AgentDirectoryTest, ANameThatTheKernelCutIsText) {
  const auto owner = AgentDirectory::Own(path_);
  ASSERT_TRUE(owner.ok());
  char before[16] = {};
  prctl(PR_GET_NAME, before);
  prctl(PR_SET_NAME, "train-fourteen\u00e9");
  agent::LogFailure(path_, wire::FailureStep::kReserve, ENOSPC);
  prctl(PR_SET_NAME, before);
  const auto failures = (*owner)->Failures(0);
  agent::ForgetFailure();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_TRUE(IsUtf8(failures[0].label)) << failures[0].label;
  EXPECT_THAT(failures[0].label, HasSubstr("train-fourteen"));
}

TEST_F(AgentDirectoryTest, TellsOfProcessesThatCouldNotJoinWhileTheyLive) {
  const auto owner = AgentDirectory::Own(path_);
  ASSERT_TRUE(owner.ok());
  EXPECT_TRUE((*owner)->Failures(~0ull).empty());
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      agent::ForgetFailure();
      agent::LogFailure(path_, wire::FailureStep::kReserve, ENOSPC);
      (void)!write(told[1], "", 1);
      pause();
      _exit(0);
    }
    char byte = 0;
    ASSERT_EQ(read(told[0], &byte, 1), 1);
  }
  const auto failures = (*owner)->Failures(~0ull);
  ASSERT_EQ(failures.size(), 3u);
  EXPECT_THAT(failures[0].label, HasSubstr(std::to_string(children[0])));
  EXPECT_THAT(failures[0].message, HasSubstr("No space left on device"));
  EXPECT_THAT(failures[0].message, HasSubstr("enlarge the shared volume"));
  kill(children[1], SIGKILL);
  waitpid(children[1], nullptr, 0);
  (*owner)->ForgetFailures();
  EXPECT_EQ((*owner)->Failures(~0ull).size(), 2u);
  for (const int i : {0, 2}) {
    kill(children[static_cast<std::size_t>(i)], SIGKILL);
    waitpid(children[static_cast<std::size_t>(i)], nullptr, 0);
  }
  EXPECT_TRUE((*owner)->Failures(~0ull).empty());
  EXPECT_EQ((*owner)->Failures(0).size(), 2u)
      << "who failed meanwhile is told of, also when it ended";
  (*owner)->ForgetFailures();
  EXPECT_TRUE((*owner)->Failures(0).empty()) << "there is room for the next ones";
  EXPECT_EQ(fs::file_size(path_ + "/failures"), wire::kMaxFailures * sizeof(wire::Failure))
      << "also on a volume that is full by then";
}

// Otherwise the files of short-lived programs could fill the volume before the next capture.
TEST_F(AgentDirectoryTest, FilesOfThoseWhoAreGoneForLongAreRemoved) {
  const auto owner = AgentDirectory::Own(path_);
  ASSERT_TRUE(owner.ok());
  const wire::RingFile living = Program();
  living.header()->born_ns = 0;  // The machine may have started a minute ago.
  std::string young, old;
  {
    const wire::RingFile first = Program(), second = Program();
    young = first.path();
    old = second.path();
    second.header()->born_ns = 0;
  }
  const auto removed = [&](const std::string& path) {
    OpenedRings opened = OpenRings(path);
    return (*owner)->RemoveIfDead(opened);
  };
  EXPECT_FALSE(removed(living.path()));
  EXPECT_FALSE(removed(young)) << "a capture that has just begun may still look for it";
  EXPECT_TRUE(removed(old));
  EXPECT_FALSE(fs::exists(old));
}

TEST_F(AgentDirectoryTest, TheLastOfThoseThatWereKilledAreKept) {
  const auto owner = AgentDirectory::Own(path_);
  ASSERT_TRUE(owner.ok());
  (*owner)->KeepEnded(std::chrono::minutes(10), 64u << 20);
  std::vector<std::string> killed;
  std::string clean;
  for (int i = 0; i < 10; ++i) {
    const wire::RingFile program = Program();
    program.header()->born_ns = 0;
    killed.push_back(program.path());
  }
  {
    const wire::RingFile program = Program();
    program.header()->born_ns = 0;
    program.header()->has_exited = 1;
    clean = program.path();
  }
  const auto removed = [&](const std::string& path) {
    OpenedRings opened = OpenRings(path);
    return (*owner)->RemoveIfDead(opened);
  };
  for (const std::string& path : killed) EXPECT_FALSE(removed(path));
  EXPECT_TRUE(removed(clean)) << "its exit handlers ran";
  const auto left = std::count_if(killed.begin(), killed.end(),
                                  [](const std::string& path) { return fs::exists(path); });
  EXPECT_EQ(left, 8);
  EXPECT_FALSE(fs::exists(killed.front())) << "the oldest went first";
  (*owner)->KeepEnded(Nanos{1}, 64u << 20);
  EXPECT_TRUE(removed(killed.back())) << "its time is over";
}

TEST_F(AgentDirectoryTest, AGuestServesItsFamilyOnly) {
  const auto guest = AgentDirectory::Join(path_, static_cast<std::uint32_t>(getpid()));
  const auto other = AgentDirectory::Join(path_, 1'000'000);
  ASSERT_TRUE(guest.ok() && other.ok());
  const wire::RingFile program = Program();
  EXPECT_TRUE((*guest)->Concerns(program, false));
  EXPECT_FALSE((*other)->Concerns(program, false));
  EXPECT_TRUE((*other)->Concerns(program, true)) << "forked from one of its own";
}

}  // namespace
}  // namespace strobe::source
