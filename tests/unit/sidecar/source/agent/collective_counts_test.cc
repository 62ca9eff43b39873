#include "sidecar/source/agent/collective_counts.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "agent/nccl/recorder.h"

namespace strobe::source {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(CollectiveCounts, CountOnAcrossTheEndsOfPrograms) {
  const auto dir = std::filesystem::path(testing::TempDir()) / "collective_counts";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  CollectiveCounts counts(dir);
  EXPECT_THAT(counts.Read(), testing::IsEmpty());
  const auto begin = [&](const char* stem) {
    std::ofstream(dir / (std::string(stem) + ".rings"));
    auto recorder = std::make_unique<nccl::Recorder>();
    EXPECT_TRUE(recorder->Open(dir / (std::string(stem) + ".nccl")));
    return recorder;
  };
  const auto first = begin("1-1"), second = begin("2-2");
  for (int i = 0; i < 3; ++i) first->Begin({.call = wire::CollectiveCall::kAllReduce});
  second->Begin({.call = wire::CollectiveCall::kSend});
  EXPECT_THAT(counts.Read(), ElementsAre(Pair("AllReduce", 3), Pair("Send", 1)));
  std::filesystem::remove(dir / "1-1.rings");
  std::filesystem::remove(dir / "1-1.nccl");
  second->Begin({.call = wire::CollectiveCall::kSend});
  EXPECT_THAT(counts.Read(), ElementsAre(Pair("AllReduce", 3), Pair("Send", 2)));
  EXPECT_THAT(CollectiveCounts("").Read(), testing::IsEmpty());
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace strobe::source
