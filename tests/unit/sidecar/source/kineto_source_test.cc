#include "sidecar/source/kineto_source.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

namespace strobe {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

KinetoClient ClientOfPid(std::uint32_t pid) { return {.socket = "s", .pids = {pid}}; }

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
  const std::vector<KinetoClient> clients = {{.socket = "dynoconfigclient1", .pids = {1}},
                                             {.socket = "dynoconfigclient2", .pids = {1}}};
  Announcement announced;
  announced.framework = "torch";
  announced.pid = 1;
  announced.kineto = "dynoconfigclient2";
  const std::vector<KinetoClient> left = WithoutAnnounced(clients, {announced});
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].socket, "dynoconfigclient1");
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
}  // namespace strobe
