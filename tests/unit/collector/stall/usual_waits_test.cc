#include "collector/stall/usual_waits.h"

#include <gmock/gmock.h>

#include "tests/fakes/standing_job.h"

namespace strobe::stall {
namespace {

WaitLength LengthOfFirst(const StandingJob& job) {
  const JobEvidence evidence = job.Evidence();
  const JobView view = ViewOf(evidence);
  return LengthOf(evidence, GraphOf(evidence, view).waits.at(0));
}

// Each has twenty collectives before the one in which rank 0 waits.
StandingJob WaitsAfter(double gap, double waited) {
  StandingJob job(2);
  return job.DidEvery(job.All(), gap, 20, waited).Waits(0, job.All(), waited);
}

TEST(LengthOf, ComparesAWaitWithTheGapsBefore) {
  EXPECT_EQ(LengthOfFirst(WaitsAfter(2.5, 1)), WaitLength::kUsual);
  EXPECT_EQ(LengthOfFirst(WaitsAfter(2.5, 4)), WaitLength::kMayEnd);
  EXPECT_EQ(LengthOfFirst(WaitsAfter(2.5, 6)), WaitLength::kLong);
}

TEST(LengthOf, OfOneLongPauseBeforeIsNotUsual) {
  StandingJob job(2);
  job.DidEvery(job.All(), 0.1, 20, 70).DidEvery(job.All(), 0.1, 20, 12).Waits(0, job.All(), 12);
  EXPECT_EQ(LengthOfFirst(job), WaitLength::kMayEnd);
}

TEST(LengthOf, DoesNotCountTheStart) {
  StandingJob job(2);
  job.Did(job.All(), 500).Did(job.All(), 300).DidEvery(job.All(), 0.1, 20, 4);
  job.Waits(0, job.All(), 4);
  EXPECT_EQ(LengthOfFirst(job), WaitLength::kLong);
}

TEST(LengthOf, AShortWaitMayEnd) {
  StandingJob job(2);
  EXPECT_EQ(LengthOfFirst(job.Waits(0, job.All(), 1.5)), WaitLength::kMayEnd);
  EXPECT_EQ(LengthOfFirst(WaitsAfter(0.1, 1.5)), WaitLength::kMayEnd);
}

TEST(LengthOf, IsUnknownWithoutTheTimeOfTheLook) {
  StandingJob job = WaitsAfter(2.5, 1);
  job.At(0).stacks->looked_at_ns = 0;
  EXPECT_EQ(LengthOfFirst(job), WaitLength::kUnknown);
  job.At(0).stacks.reset();
  EXPECT_EQ(LengthOfFirst(job), WaitLength::kUnknown);
}

TEST(UsualText, HasBothTimes) {
  const JobEvidence evidence = WaitsAfter(2.5, 4).Evidence();
  const JobView view = ViewOf(evidence);
  EXPECT_EQ(UsualText(evidence, GraphOf(evidence, view).waits.at(0)),
            "rank 0 has waited for 4s, and up to 2.5s lay between two of these before");
}

}  // namespace
}  // namespace strobe::stall
