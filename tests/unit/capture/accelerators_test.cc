#include "capture/accelerators.h"

#include <gmock/gmock.h>

namespace strobe::capture {
namespace {

using testing::ElementsAre;

TEST(Accelerators, SharedGpusAndSlicesAreGpus) {
  for (const char* gpu : {"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb",
                          "nvidia.com/mig-1g.5gb.shared"}) {
    const Accelerator* found = FindAccelerator(gpu);
    ASSERT_NE(found, nullptr) << gpu;
    EXPECT_TRUE(found->cuda && found->planes.agent && found->planes.framework) << gpu;
  }
}

TEST(Accelerators, NetworkCardsOfAVendorAreNone) {
  for (const char* other : {"nvidia.com/hostdev", "nvidia.com/mig-", "amd.com/cpx_", "cpu",
                            "google.com/tpus", "vpc.amazonaws.com/efa", ""})
    EXPECT_EQ(FindAccelerator(other), nullptr) << other;
}

// The agent records devices through CUPTI only, and a profiler server only the devices that XLA
// supports.
TEST(Accelerators, PlanesAreExpectedOnlyOfWhoCanRecordThem) {
  EXPECT_EQ(FindAccelerator("google.com/tpu")->planes,
            (ExpectedPlanes{.framework = true, .agent = false}));
  EXPECT_EQ(FindAccelerator("amd.com/gpu")->planes,
            (ExpectedPlanes{.framework = true, .agent = false}));
  EXPECT_EQ(FindAccelerator("aws.amazon.com/neuroncore")->planes, ExpectedPlanes{});
  EXPECT_EQ(FindAccelerator("habana.ai/gaudi")->planes, ExpectedPlanes{});
  EXPECT_EQ(FindAccelerator("gpu.intel.com/xe")->planes, ExpectedPlanes{});
}

TEST(ChooseTrainers, TakesAcceleratorsThenClaimsThenTheFirst) {
  const ContainerDevices none, gpu{.accelerator = true}, claim{.claims = true};
  EXPECT_THAT(ChooseTrainers(std::vector{none, gpu, claim, gpu}), ElementsAre(1, 3));
  EXPECT_THAT(ChooseTrainers(std::vector{none, claim}), ElementsAre(1));
  EXPECT_THAT(ChooseTrainers(std::vector{none, none}), ElementsAre(0));
  EXPECT_THAT(ChooseTrainers({}), ElementsAre());
}

}  // namespace
}  // namespace strobe::capture
