#include "sidecar/source/process_outcome.h"

#include <gtest/gtest.h>

#include "sidecar/source/process_row.h"

namespace strobe {
namespace {

TEST(SetWorst, AWorkerIsAsWellAsTheWorstOfItsProcesses) {
  session::Recording recording;
  SetWorst(recording);
  EXPECT_EQ(recording.outcome, Outcome::kOk);
  recording.processes = {MissingProcess("a 1", Outcome::kOk, ""),
                         MissingProcess("b 2", Outcome::kBusy, "held"),
                         MissingProcess("c 3", Outcome::kEventsDropped, "slow")};
  SetWorst(recording);
  EXPECT_EQ(recording.outcome, Outcome::kBusy);
  EXPECT_EQ(recording.message, "2 of 3 processes are not Ok; b 2: held");
  recording.processes.resize(1);
  SetWorst(recording);
  EXPECT_EQ(recording.outcome, Outcome::kOk);
  EXPECT_EQ(recording.message, "");
}

}  // namespace
}  // namespace strobe
