#include "agent/nccl/chain.h"

#include <gmock/gmock.h>

namespace strobe::nccl {
namespace {

std::vector<std::string> Names(const char* named, const char* net) {
  std::vector<std::string> names;
  for (const PluginCandidate& candidate : PluginCandidates(named, net))
    names.push_back((candidate.loaded_only ? "loaded " : "") + candidate.library);
  return names;
}

// The order in NCCL's documentation of NCCL_PROFILER_PLUGIN.
TEST(Chain, LooksWhereNcclLooks) {
  using testing::ElementsAre;
  EXPECT_THAT(Names(nullptr, nullptr),
              ElementsAre("libnccl-profiler.so", "librccl-profiler.so", "loaded libnccl-net.so",
                          "loaded librccl-net.so"));
  EXPECT_THAT(Names("example", nullptr),
              ElementsAre("example", "libnccl-profiler-example.so", "loaded libnccl-net.so",
                          "loaded librccl-net.so"));
  EXPECT_THAT(Names("/opt/comma.so", "gib"),
              ElementsAre("/opt/comma.so", "loaded gib", "loaded libnccl-net-gib.so",
                          "loaded libnccl-net.so", "loaded librccl-net.so"));
  EXPECT_THAT(Names("STATIC_PLUGIN", nullptr), ElementsAre("loaded "));
  EXPECT_THAT(Names("None", "gib"), ElementsAre());
  EXPECT_EQ(Names("$(NCCL_PROFILER_PLUGIN)", nullptr), Names(nullptr, nullptr))
      << "Kubernetes left the reference because nobody sets the variable";
}

TEST(Chain, WithoutAnotherPluginNothingIsWanted) {
  Chain chain;
  EXPECT_EQ(chain.version(), 0);
  EXPECT_EQ(chain.mask(), 0);
  EXPECT_FALSE(chain.Wants(kCollective, /*marked=*/true));
  EXPECT_EQ(chain.Stop(&chain), kSuccess);
}

// Version 4 has no calls: the parent of a collective is its group.
TEST(Chain, OlderPluginsGetTheGroupAsParent) {
  int call = 0, group = 0;
  EventV5 event = {};
  event.type = kCollective;
  event.parent = &call;
  event.rank = 7;
  event.collective.call.sequence = 41;
  event.collective.call.function = "AllReduce";
  event.collective.call.channels = 3;
  event.collective.parent_group = &group;
  const EventV4 made = AsVersion4(event);
  EXPECT_EQ(made.type, kCollective);
  EXPECT_EQ(made.parent, &group);
  EXPECT_EQ(made.rank, 7);
  EXPECT_EQ(made.collective.sequence, 41u);
  EXPECT_STREQ(made.collective.function, "AllReduce");
  EXPECT_EQ(made.collective.channels, 3);
  event.type = kKernelChannel;
  event.kernel = {.channel = 2, .device_ns = 99};
  EXPECT_EQ(AsVersion4(event).parent, &call);
  EXPECT_EQ(AsVersion4(event).kernel.device_ns, 99u);
}

}  // namespace
}  // namespace strobe::nccl
