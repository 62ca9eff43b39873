#include "operator/job/pod_processes.h"

#include <gmock/gmock.h>

namespace strobe::kube {
namespace {

using nlohmann::json;

TEST(ProcessesOf, ReadsTorchrunsOptionHoweverItIsWritten) {
  EXPECT_EQ(ProcessesOf({{"command", {"torchrun", "--nproc-per-node=8", "train.py"}}}), 8u);
  EXPECT_EQ(ProcessesOf({{"args", {"--nproc_per_node", "4", "train.py"}}}), 4u);
  EXPECT_EQ(ProcessesOf({{"command", {"sh", "-c", "torchrun --nproc-per-node 2 train.py"}}}), 2u);
}

TEST(ProcessesOf, GpuAndAutoMeanOneForEachAccelerator) {
  json container = {{"command", {"torchrun", "--nproc-per-node=gpu"}},
                    {"resources", {{"limits", {{"nvidia.com/gpu", "8"}, {"cpu", "96"}}}}}};
  EXPECT_EQ(ProcessesOf(container), 8u);
  container["command"] = {"torchrun", "--nproc-per-node=auto"};
  container["resources"]["limits"]["nvidia.com/gpu"] = 2u;
  EXPECT_EQ(ProcessesOf(container), 2u);
}

TEST(ProcessesOf, ReadsTheVariable) {
  EXPECT_EQ(ProcessesOf({{"env", {{{"name", "PET_NPROC_PER_NODE"}, {"value", "16"}}}}}), 16u);
  EXPECT_EQ(ProcessesOf({{"env",
                          {{{"name", "PET_NPROC_PER_NODE"}, {"value", "1"}},
                           {{"name", "PET_NPROC_PER_NODE"}, {"value", "8"}}}}}),
            8u)
      << "the last one of a name counts";
}

TEST(CertainProcessesOf, OnlyOneNumberInTheCommandIsCertain) {
  EXPECT_EQ(CertainProcessesOf({{"command", {"torchrun", "--nproc-per-node", "8", "t.py"}}}), 8u);
  EXPECT_EQ(CertainProcessesOf({{"args", {"torchrun --nproc_per_node=4 t.py"}}}), 4u);
  const char* two = "torchrun --nproc-per-node 8 a.py; torchrun --nproc_per_node 4 b.py";
  EXPECT_EQ(CertainProcessesOf({{"command", {"sh", "-c", two}}}), 0u);
  EXPECT_EQ(CertainProcessesOf({{"command", {"torchrun", "--nproc-per-node=gpu"}},
                                {"resources", {{"limits", {{"nvidia.com/gpu", "8"}}}}}}),
            0u);
  EXPECT_EQ(CertainProcessesOf({{"env", {{{"name", "PET_NPROC_PER_NODE"}, {"value", "16"}}}}}), 0u);
}

TEST(ProcessesOf, NothingThatTellsIsZero) {
  EXPECT_EQ(ProcessesOf(json::object()), 0u);
  EXPECT_EQ(ProcessesOf({{"command", "torchrun"}, {"env", 7}, {"resources", json::array()}}), 0u);
  for (const char* value : {"", "eight", "-1", "99999999999999999999"})
    EXPECT_EQ(ProcessesOf({{"args", {"--nproc-per-node", value}}}), 0u) << value;
  EXPECT_EQ(ProcessesOf({{"args", {"--nproc-per-node"}}}), 0u);
}

}  // namespace
}  // namespace strobe::kube
