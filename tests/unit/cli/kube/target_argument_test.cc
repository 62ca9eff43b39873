#include "cli/kube/target_argument.h"

#include <gmock/gmock.h>

namespace strobe::cluster {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string TargetText(const std::vector<std::string>& names, const std::string& selector = "") {
  const auto target = TargetOf(names, selector);
  return target.ok() ? target->dump() : std::string(target.status().message());
}

TEST(TargetOf, KindsAreWrittenAsForKubectl) {
  const std::string job = R"({"jobRef":{"kind":"Job","name":"llm"}})";
  for (const char* text : {"job/llm", "jobs/llm", "Job/llm"}) EXPECT_EQ(TargetText({text}), job);
  EXPECT_EQ(TargetText({"jobs.batch.volcano.sh/llm"}),
            R"({"jobRef":{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","name":"llm"}})");
  EXPECT_EQ(TargetText({"sts/web"}), R"({"jobRef":{"kind":"StatefulSet","name":"web"}})");
  for (const char* text : {"deploy/vllm", "deployment/vllm", "deployments.apps/vllm"})
    EXPECT_THAT(TargetText({text}), HasSubstr(R"("kind":"Deployment","name":"vllm")")) << text;
  EXPECT_EQ(TargetText({"rs/web"}), R"({"jobRef":{"kind":"ReplicaSet","name":"web"}})");
  EXPECT_EQ(TargetText({"pytorchjob/a.b"}), R"({"jobRef":{"kind":"PyTorchJob","name":"a.b"}})");
  EXPECT_EQ(TargetText({"jobset/x"}), R"({"jobRef":{"kind":"JobSet","name":"x"}})")
      << "a TrainJob is read as a JobSet, but is none";
}

TEST(TargetOf, PodsAndLabels) {
  EXPECT_EQ(TargetText({"pod/a", "po/b"}), R"({"pods":["a","b"]})");
  EXPECT_EQ(TargetText({}, "app=train,tier!=web"),
            R"({"selector":{"matchLabels":{"app":"train"},"matchExpressions":[{"key":"tier",)"
            R"("operator":"NotIn","values":["web"]}]}})");
}

TEST(TargetOf, SaysWhatToWriteInstead) {
  EXPECT_THAT(TargetText({"llm"}), HasSubstr("write KIND/NAME, such as job/llm"));
  EXPECT_THAT(TargetText({"job/"}), HasSubstr("write KIND/NAME"));
  EXPECT_THAT(TargetText({"cronjob/a"}), HasSubstr("use one of pod, job,"));
  EXPECT_THAT(TargetText({"job/a", "job/b"}), HasSubstr("a capture records one job"));
  EXPECT_THAT(TargetText({"pod/a", "job/b"}), HasSubstr("is not a pod"));
  EXPECT_THAT(TargetText({}), HasSubstr("name the workers"));
  EXPECT_THAT(TargetText({"job/a"}, "app=b"), HasSubstr("either"));
  EXPECT_THAT(TargetText({}, "a in (b)"), HasSubstr("--from"));
  EXPECT_THAT(KindWords(), Contains("leaderworkerset"));
}

}  // namespace
}  // namespace strobe::cluster
