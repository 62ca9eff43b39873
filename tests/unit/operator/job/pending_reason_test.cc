#include "operator/job/pending_reason.h"

#include <gmock/gmock.h>

namespace strobe {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Target WorkerTarget(std::string name, std::optional<Outcome> outcome = {},
                    std::string message = "") {
  Target target;
  target.name = std::move(name);
  target.outcome = outcome;
  target.message = std::move(message);
  return target;
}

TEST(WhyPending, NoPodsAtAll) {
  Selection selection;
  selection.not_known = "the job does not say it";
  EXPECT_EQ(WhyPending(selection).reason, "NoTargets");
  EXPECT_EQ(WhyPending(selection).message, "no pod matches the target");
  selection.job = "Job/nope";
  selection.not_known = "there is no Job ml/nope, or its API is not installed";
  EXPECT_EQ(WhyPending(selection).message,
            "no pod matches the target; there is no Job ml/nope, or its API is not installed");
  selection.not_known = "";
  selection.expected = 4;
  EXPECT_THAT(WhyPending(selection).message, HasSubstr("0/4"));
}

TEST(WhyPending, ASuspendedJobComesFirst) {
  Selection selection;
  selection.suspended = true;
  EXPECT_EQ(WhyPending(selection).reason, "JobSuspended");
}

TEST(WhyPending, NamesTheFirstWorkerThatIsMissing) {
  Selection selection;
  selection.expected = 2;
  selection.present = 1;
  selection.targets = {WorkerTarget("w0"),
                       WorkerTarget("(rank 1)", Outcome::kWorkerMissing, "no pod")};
  EXPECT_EQ(WhyPending(selection).reason, "WaitingForPods");
  EXPECT_THAT(WhyPending(selection).message, HasSubstr("(rank 1): no pod"));
}

TEST(WhyPending, TheOutcomeIsTheReasonWhenNoneCanTakePart) {
  Selection selection;
  selection.present = 1;
  selection.targets = {WorkerTarget("w0", Outcome::kSidecarMissing, "it has no sidecar")};
  EXPECT_EQ(WhyPending(selection).reason, "SidecarMissing");
  EXPECT_THAT(WhyPending(selection).message,
              StartsWith("none of 1 pods can take part; w0: it has no sidecar. "));
}

}  // namespace
}  // namespace strobe
