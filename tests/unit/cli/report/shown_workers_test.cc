#include "cli/report/shown_workers.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe {
namespace {

using testing::ElementsAre;

report::Job JobOfThree() {
  report::Job job;
  job.steps.emplace_back();
  for (std::uint32_t i = 0; i < 3; ++i) {
    job.workers.push_back({.name = StrCat("w", i)});
    job.steps[0].workers.push_back({.worker = i, .end_ns = 100, .own_ns = {(i + 1) * 10}});
  }
  return job;
}

TEST(ShownWorkers, AreThoseWithTheMostTimeOfTheirOwn) {
  EXPECT_THAT(ShownWorkers(JobOfThree(), {}, 2), ElementsAre(1, 2));
  EXPECT_THAT(ShownWorkers(JobOfThree(), {}, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(ShownWorkers({}, {}, 3), ElementsAre());
}

TEST(ShownWorkers, AreOrderedByRank) {
  report::Job job = JobOfThree();
  job.workers[0].rank = 10;
  job.workers[1].rank = 2;
  EXPECT_THAT(ShownWorkers(job, {}, 3), ElementsAre(1, 0, 2));
}

TEST(ShownWorkers, LateOnesAreAmongThem) {
  report::StragglerReport report;
  report.stragglers.push_back({.late = {.who = 0}});
  EXPECT_THAT(ShownWorkers(JobOfThree(), report, 2), ElementsAre(0, 2));
}

}  // namespace
}  // namespace strobe
