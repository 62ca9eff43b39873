#include "sidecar/source/kineto/kineto_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/file_descriptor.h"
#include "common/base/strings.h"
#include "sidecar/source/auto_source.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

KinetoClient ClientOfPid(std::uint32_t pid) { return {.socket = "s", .pids = {pid}}; }

std::vector<KinetoClient> TwoClients(std::uint32_t first_pid, std::uint32_t second_pid) {
  return {{.socket = "dynoconfigclient1", .pids = {first_pid}},
          {.socket = "dynoconfigclient2", .pids = {second_pid}}};
}

std::vector<std::uint32_t> LeftToKineto(const std::vector<Announcement>& announced) {
  std::vector<std::uint32_t> pids;
  for (const KinetoClient& client :
       WithoutAnnounced({ClientOfPid(1), ClientOfPid(2), ClientOfPid(3)}, announced))
    pids.push_back(client.pid());
  return pids;
}

TEST(WithoutAnnounced, NobodyIsRecordedTwice) {
  Announcement torch, launcher, jax;
  torch.framework = launcher.framework = "torch";
  torch.pid = 1;
  launcher.pid = 2;
  launcher.trains = false;
  jax.framework = "jax";
  jax.pid = 3;
  EXPECT_THAT(LeftToKineto({torch}), testing::ElementsAre(2, 3));
  EXPECT_THAT(LeftToKineto({launcher}), testing::ElementsAre(1, 3)) << "it does not train";
  EXPECT_THAT(LeftToKineto({jax}), testing::ElementsAre(1, 2, 3)) << "another profiler";
}

// Each container of a pod may have a process 1, of which one was not announced.
TEST(WithoutAnnounced, AProcessIsKnownByItsSocketWhereItTellsIt) {
  const std::vector<KinetoClient> clients = TwoClients(1, 1);
  Announcement announced;
  announced.framework = "torch";
  announced.pid = 1;
  announced.kineto = "dynoconfigclient2";
  const std::vector<KinetoClient> left = WithoutAnnounced(clients, {announced});
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].socket, "dynoconfigclient1");
}

// Regression: a process of another container, or one that had the ID before, was left out.
TEST(WithoutAnnounced, AProcessOfTheSameIdThatBeganAtAnotherTimeIsAnother) {
  Announcement announced;
  announced.framework = "torch";
  announced.pid = 1;
  announced.began = 777;
  std::vector<KinetoClient> clients = TwoClients(1, 1);
  clients[0].began = 777;
  clients[1].began = 778;
  std::vector<KinetoClient> left = WithoutAnnounced(clients, {announced});
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].socket, "dynoconfigclient2");
  announced.asks_kineto = false;
  clients[0].began.reset();
  EXPECT_EQ(WithoutAnnounced(clients, {announced}).size(), 2u) << "it is no client of Kineto's";
}

// PyTorch before 2.7, for example.
TEST(WithoutAnnounced, AProcessThatRefusesIsRecordedByTheDaemonThatKnowsIt) {
  const std::vector<KinetoClient> clients = TwoClients(1, 2);
  Announcement old;
  old.framework = "torch";
  old.pid = 1;
  old.kineto = "dynoconfigclient1";
  old.refuses = true;
  EXPECT_EQ(WithoutAnnounced(clients, {old}).size(), 2u);
  EXPECT_TRUE(WithoutClients({old}, clients).empty());
  EXPECT_EQ(WithoutClients({old}, {clients[1]}).size(), 1u) << "the daemon does not know it";

  Announcement recorded = old, launcher = old, beside = old, unknown = old;
  recorded.refuses = false;
  launcher.trains = false;
  beside.beside = true;
  unknown.kineto.clear();
  for (const Announcement& process : {recorded, launcher, beside, unknown}) {
    const std::vector<KinetoClient> left = WithoutAnnounced(clients, {process});
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].socket, "dynoconfigclient2");
    EXPECT_EQ(WithoutClients({process}, clients).size(), 1u);
  }
}

class NoProfiler final : public session::Source {
 public:
  std::vector<v1::Source> Probe(Nanos) override { return {}; }
  Nanos lead() const override { return Nanos{0}; }
  std::vector<session::Recording> Record(const v1::CapturePlan&, const Cancellation&,
                                         const Cancellation&,
                                         const std::function<void()>&) override {
    return session::OneRecording({.outcome = Outcome::kNoSource});
  }
};

// Asks the daemon in this directory once, as Kineto does, and keeps its socket.
FileDescriptor AskDaemon(const std::string& directory, const std::string& name) {
  const auto address_of = [&](const std::string& file) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = StrCat(directory, "/", file);
    EXPECT_LT(path.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return address;
  };
  FileDescriptor client(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_un own = address_of(name), daemon = address_of("dynolog");
  EXPECT_EQ(bind(client.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
  const std::uint64_t size = 20;
  const std::int32_t type = 2, count = 1, pid = getpid();
  std::string question(60, '\0');
  std::memcpy(question.data(), &size, sizeof size);
  std::memcpy(question.data() + 8, "req", 3);
  std::memcpy(question.data() + 40, &type, sizeof type);
  std::memcpy(question.data() + 44, &count, sizeof count);
  std::memcpy(question.data() + 56, &pid, sizeof pid);
  EXPECT_EQ(sendto(client.get(), question.data(), question.size(), 0,
                   reinterpret_cast<const sockaddr*>(&daemon), sizeof daemon),
            static_cast<ssize_t>(question.size()));
  return client;
}

TEST(KinetoSource, TakesOverAProcessThatRefusesOnceItAsks) {
  char name[] = "/tmp/strobe-kineto-XXXXXX";
  const std::string directory = mkdtemp(name), agent = directory + "/agent";
  std::filesystem::create_directory(agent);
  const std::string path = agent + "/42-777.process";
  std::ofstream(path) << R"({"format": 1, "pid": 42, "began": 777, "framework": "torch",
                             "version": "2.6.0", "rank": 9, "local_rank": 1, "program": "t.py",
                             "socket": "42-777.sock", "refuses": true,
                             "kineto": "dynoconfigclient42"})";
  const FileDescriptor locked(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(locked.get(), LOCK_EX | LOCK_NB), 0);
  const SystemClock clock;
  {
    KinetoDaemon daemon(clock, {.directory = directory, .socket_files = true});
    InprocSource inproc(clock, agent, false);
    KinetoSource kineto(clock, daemon, agent);
    NoProfiler server, program;
    AutoSource all(server, inproc, program, &kineto);
    std::vector<v1::Source> sources = all.Probe(1s);
    ASSERT_EQ(sources.size(), 1u);
    EXPECT_EQ(sources[0].address(), "t.py 42");

    const FileDescriptor asking = AskDaemon(directory, "dynoconfigclient42");
    for (int i = 0; i < 30'000 && daemon.clients().empty(); ++i) usleep(1000);
    sources = all.Probe(1s);
    ASSERT_EQ(sources.size(), 1u);
    EXPECT_THAT(sources[0].detail(), HasSubstr("Kineto, polls"));
    ASSERT_EQ(sources[0].ranks_size(), 1) << "the announcement tells what the protocol does not";
    EXPECT_EQ(sources[0].ranks(0).rank(), 9u);
    EXPECT_EQ(sources[0].ranks(0).local_rank(), 1u);
    EXPECT_GT(kineto.lead(), 0ns);
  }
  std::filesystem::remove_all(directory);
}

TEST(KinetoSource, SaysWhyNobodyIsThereAndTakesNoTimeThen) {
  char name[] = "/tmp/strobe-kineto-XXXXXX";
  const std::string directory = mkdtemp(name);
  const SystemClock clock;
  {
    KinetoDaemon daemon(clock, {.directory = directory, .socket_files = true});
    KinetoDaemon second(clock, {.directory = directory, .socket_files = true});
    KinetoSource source(clock, daemon, directory), squatted(clock, second, directory);
    EXPECT_EQ(source.lead(), 0ns);
    ASSERT_EQ(source.Probe(1s).size(), 1u);
    EXPECT_FALSE(source.Probe(1s)[0].ready());
    EXPECT_THAT(source.Probe(1s)[0].detail(), HasSubstr("KINETO_USE_DAEMON"));
    EXPECT_THAT(squatted.Probe(1s)[0].detail(), HasSubstr("another daemon"));

    v1::CapturePlan plan;
    const Cancellation never;
    int collecting = 0;
    const auto record = [&](KinetoSource& from) {
      return std::move(from.Record(plan, never, never, [&] { ++collecting; }).front());
    };
    session::Recording recording = record(source);
    EXPECT_EQ(recording.outcome, Outcome::kNoSource);
    EXPECT_TRUE(recording.processes.empty()) << "nothing is missing";
    recording = record(squatted);
    EXPECT_EQ(recording.outcome, Outcome::kNoSource);
    ASSERT_EQ(recording.processes.size(), 1u) << "what the pod asks for is missing";
    EXPECT_THAT(recording.processes[0].message(), HasSubstr("another daemon"));
    EXPECT_EQ(collecting, 2);
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace strobe::source
