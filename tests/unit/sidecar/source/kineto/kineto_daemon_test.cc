#include "sidecar/source/kineto/kineto_daemon.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/base/strings.h"
#include "sidecar/source/kineto/kineto_messages.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// A process with PyTorch, as far as the daemon can see it. All sockets are in a directory, because
// abstract names would be those of other tests too.
class KinetoProcess {
 public:
  KinetoProcess(const std::string& directory, const std::string& name)
      : directory_(directory), socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = Address(name);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }

  void Ask(std::int32_t type = 2, std::int32_t pid = static_cast<std::int32_t>(getpid())) const {
    const std::uint64_t size = 20;
    std::string datagram(60, '\0');
    std::memcpy(datagram.data(), &size, sizeof size);
    std::memcpy(datagram.data() + 8, "req", 3);
    const std::int32_t count = 1;
    std::memcpy(datagram.data() + 40, &type, sizeof type);
    std::memcpy(datagram.data() + 44, &count, sizeof count);
    std::memcpy(datagram.data() + 56, &pid, sizeof pid);
    Send(datagram);
  }
  void Send(const std::string& bytes, int passed = -1) const {
    sockaddr_un address = Address("dynolog");
    iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_name = &address;
    message.msg_namelen = sizeof address;
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof passed)] = {};
    if (passed >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof passed);
      std::memcpy(CMSG_DATA(rights), &passed, sizeof passed);
    }
    EXPECT_EQ(sendmsg(socket_.get(), &message, 0), static_cast<ssize_t>(bytes.size()));
  }
  bool HasAnswer(Nanos limit) const {
    pollfd wanted{socket_.get(), POLLIN, 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(limit);
    return poll(&wanted, 1, static_cast<int>(ms.count())) == 1;
  }
  // The text of the next answer, and the name of the socket that sent it.
  std::string Read(std::string* sender = nullptr) const {
    char bytes[4096];
    sockaddr_un from{};
    socklen_t size = sizeof from;
    const ssize_t got =
        recvfrom(socket_.get(), bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (sender != nullptr) sender->assign(from.sun_path, size - offsetof(sockaddr_un, sun_path));
    return got < 40 ? "" : std::string(bytes + 40, bytes + got);
  }

 private:
  sockaddr_un Address(const std::string& name) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = StrCat(directory_, "/", name);
    EXPECT_LT(path.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return address;
  }

  const std::string directory_;
  const FileDescriptor socket_;
};

class KinetoDaemonTest : public testing::Test {
 protected:
  KinetoDaemonTest() {
    char name[] = "/tmp/strobe-kineto-XXXXXX";
    directory_ = mkdtemp(name);
    daemon_.emplace(clock_, KinetoDaemonOptions{.directory = directory_, .socket_files = true});
  }
  ~KinetoDaemonTest() override {
    daemon_.reset();
    std::filesystem::remove_all(directory_);
  }
  template <typename Condition>
  static bool Await(const Condition& condition) {
    const SystemClock clock;
    for (const MonoTime begin = clock.MonoNow(); clock.MonoNow() - begin < 30s;) {
      if (condition()) return true;
      usleep(1000);
    }
    return false;
  }
  bool AwaitClients(std::size_t count) const {
    return Await([&] { return daemon_->clients().size() == count; });
  }
  bool AwaitRefused(const std::string& reason, std::uint64_t count) const {
    return Await([&] { return daemon_->refused()[reason] == count; });
  }
  KinetoOrder Order() const {
    return {.path = directory_ + "/strobe-1.json", .start = clock_.MonoNow() + 1h, .duration = 1s};
  }

  const SystemClock clock_{};
  std::string directory_;
  std::optional<KinetoDaemon> daemon_;
};

TEST_F(KinetoDaemonTest, TellsAnOrderToWhomItIsFor) {
  const KinetoProcess one(directory_, "dynoconfigclient1"), two(directory_, "dynoconfigclient2");
  one.Ask();
  two.Ask();
  ASSERT_TRUE(AwaitClients(2));
  EXPECT_EQ(daemon_->problem(), "");
  EXPECT_TRUE(daemon_->Assign("dynoconfigclient1", Order()));
  // On a busy machine a question may be seen too late; then the next one is answered.
  for (int i = 0; i < 100 && !one.HasAnswer(100ms); ++i) one.Ask();
  two.Ask();
  std::string sender;
  EXPECT_THAT(one.Read(&sender), HasSubstr("ACTIVITIES_LOG_FILE=" + directory_));
  // A process aborts when the sender's name does not begin with its own directory.
  EXPECT_EQ(sender.substr(0, directory_.size() + 9), directory_ + "/dynolog.");
  EXPECT_FALSE(two.HasAnswer(50ms)) << "nothing is due: silence";
  EXPECT_TRUE(Await([&] {
    return daemon_->DeliveryOf("dynoconfigclient1")->stage == KinetoDelivery::Stage::kRead;
  })) << "the daemon sees that it was read";
  EXPECT_FALSE(std::filesystem::exists(sender)) << "nothing stays behind";
}

TEST_F(KinetoDaemonTest, SeesThatAnAnswerIsNotRead) {
  const KinetoProcess process(directory_, "dynoconfigclient1");
  process.Ask();
  ASSERT_TRUE(AwaitClients(1));
  daemon_->Assign("dynoconfigclient1", Order());
  for (int i = 0; i < 100 && !process.HasAnswer(100ms); ++i) process.Ask();
  EXPECT_EQ(daemon_->DeliveryOf("dynoconfigclient1")->stage, KinetoDelivery::Stage::kSent);
  daemon_->End("dynoconfigclient1", /*done=*/true);
  daemon_->Assign("dynoconfigclient1", Order());
  const std::uint64_t late = daemon_->refused()["late"];
  process.Ask();
  ASSERT_TRUE(AwaitRefused("late", late + 1));
  EXPECT_EQ(daemon_->DeliveryOf("dynoconfigclient1")->held, KinetoDelivery::Held::kUnread);
  process.Read();
  for (int i = 0; i < 100 && !process.HasAnswer(100ms); ++i) process.Ask();
  EXPECT_THAT(process.Read(), HasSubstr("PROFILE_START_TIME"));
}

TEST_F(KinetoDaemonTest, CountsWhatItDoesNotUse) {
  const KinetoProcess process(directory_, "dynoconfigclient1"), stranger(directory_, "stranger");
  for (const std::string& bytes :
       {std::string(1, 'x'), std::string(40, '\0'), std::string(100'000, 'x'), std::string(512, 1)})
    process.Send(bytes);
  stranger.Ask();
  ASSERT_TRUE(AwaitRefused("garbage", 5));
  process.Ask(2, 1);
  ASSERT_TRUE(AwaitRefused("forged", 1)) << "the kernel knows better who asks";
  EXPECT_TRUE(daemon_->clients().empty());
  process.Ask();
  EXPECT_TRUE(AwaitClients(1)) << "it goes on";
}

TEST_F(KinetoDaemonTest, ClosesDescriptorsThatOthersSend) {
  const KinetoProcess process(directory_, "dynoconfigclient1");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  process.Send("garbage", ends[1]);
  ASSERT_TRUE(AwaitRefused("garbage", 1));
  close(ends[1]);
  pollfd hung{ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&hung, 1, 30'000), 1) << "nobody holds the pipe's other end";
  close(ends[0]);
}

TEST_F(KinetoDaemonTest, WhoEndsIsNoClientAnyMore) {
  std::optional<KinetoProcess> process(std::in_place, directory_, "dynoconfigclient1");
  process->Ask();
  ASSERT_TRUE(AwaitClients(1));
  daemon_->Assign("dynoconfigclient1", Order());
  process.reset();
  EXPECT_TRUE(AwaitClients(0));
  EXPECT_TRUE(daemon_->DeliveryOf("dynoconfigclient1")->gone);
}

TEST_F(KinetoDaemonTest, AnotherDaemonIsLeftInPeace) {
  std::optional<KinetoDaemon> second(
      std::in_place, clock_, KinetoDaemonOptions{.directory = directory_, .socket_files = true});
  EXPECT_THAT(second->problem(), HasSubstr("another daemon"));
  EXPECT_EQ(daemon_->problem(), "");
  const KinetoProcess process(directory_, "dynoconfigclient1");
  process.Ask();
  EXPECT_TRUE(AwaitClients(1));
  daemon_.reset();
  EXPECT_TRUE(Await([&] { return second->problem().empty(); })) << "it takes over";
  second.reset();
}

TEST_F(KinetoDaemonTest, AKilledDaemonsNameIsNobodys) {
  daemon_.reset();
  {
    const KinetoProcess killed(directory_, "dynolog");  // The name stays when its process ends.
  }
  ASSERT_TRUE(std::filesystem::exists(directory_ + "/dynolog"));
  daemon_.emplace(clock_, KinetoDaemonOptions{.directory = directory_, .socket_files = true});
  EXPECT_EQ(daemon_->problem(), "");
}

TEST_F(KinetoDaemonTest, ADirectoryThatCannotBeSharedIsAProblemAndNoMore) {
  const KinetoDaemon daemon(clock_, {.directory = "/proc/self/nowhere", .socket_files = true});
  EXPECT_THAT(daemon.problem(), HasSubstr("cannot be created"));
}

TEST_F(KinetoDaemonTest, ARegistrationIsAnswered) {
  const KinetoProcess process(directory_, "dynoconfigclient1");
  std::string datagram = KinetoCount(0) + std::string(12, '\0');
  datagram[0] = 16;
  const auto pid = static_cast<std::int32_t>(getpid());
  std::memcpy(datagram.data() + 44, &pid, sizeof pid);
  for (int i = 0; i < 100 && !process.HasAnswer(100ms); ++i) process.Send(datagram);
  EXPECT_EQ(process.Read(), std::string("\1\0\0\0", 4));
}

}  // namespace
}  // namespace strobe::source
