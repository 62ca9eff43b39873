#include "agent/wire/job_ranks.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace strobe::wire {
namespace {

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

}  // namespace
}  // namespace strobe::wire
