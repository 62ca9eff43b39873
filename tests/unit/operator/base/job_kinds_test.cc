#include "operator/base/job_kinds.h"

#include <gmock/gmock.h>

namespace strobe::kube {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(FindJobKind, TheGroupCounts) {
  EXPECT_EQ(FindJobKind({"", "Job", "llm"})->label, "batch.kubernetes.io/job-name");
  EXPECT_EQ(FindJobKind({"batch/v1", "Job", "llm"})->label, "batch.kubernetes.io/job-name");
  EXPECT_EQ(FindJobKind({"batch.volcano.sh/v1alpha1", "Job", "llm"})->label, "volcano.sh/job-name");
  EXPECT_EQ(FindJobKind({"example.com/v1", "Job", "llm"}), nullptr);
  EXPECT_EQ(FindJobKind({"", "CronTab", "llm"}), nullptr);
}

TEST(OwnsPods, TheReplicaSetsOfADeploymentDo) {
  const JobRef deployment{"", "Deployment", "vllm"};
  EXPECT_TRUE(OwnsPods(deployment, "ReplicaSet", "vllm-5d8f", "5d8f"));
  EXPECT_FALSE(OwnsPods(deployment, "ReplicaSet", "vllm-5d8f", ""));
  EXPECT_FALSE(OwnsPods(deployment, "ReplicaSet", "vllm-web-5d8f", "5d8f"));
  EXPECT_FALSE(OwnsPods(deployment, "Deployment", "vllm", "5d8f"));
  EXPECT_TRUE(OwnsPods({"", "ReplicaSet", "vllm-5d8f"}, "ReplicaSet", "vllm-5d8f", "5d8f"));
  EXPECT_FALSE(OwnsPods({"", "StatefulSet", "vllm"}, "ReplicaSet", "vllm", ""));
}

TEST(UnknownJobKind, NamesTheFieldAndTheRemedy) {
  EXPECT_THAT(UnknownJobKind({"example.com/v1", "Job", "llm"}),
              AllOf(HasSubstr("target.jobRef.apiVersion"), HasSubstr("batch or batch.volcano.sh"),
                    HasSubstr("not of example.com")));
  EXPECT_THAT(UnknownJobKind({"", "CronTab", "llm"}),
              AllOf(HasSubstr("target.jobRef.kind CronTab"), HasSubstr("target.selector"),
                    HasSubstr("RayJob, RayService")));
}

}  // namespace
}  // namespace strobe::kube
