#include "operator/job/target_spec.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::job {
namespace {

TEST(TargetText, NamesTheJobWhateverIsRecordedOfIt) {
  TargetSpec target;
  target.job = kube::JobRef{"", "JobSet", "llm"};
  target.rotation = 7;
  EXPECT_EQ(TargetText(target), "JobSet/llm");
  target.job = kube::JobRef{"jobset.x-k8s.io/v1alpha2", "JobSet", "llm"};
  EXPECT_EQ(TargetText(target), "JobSet/llm");
  target = {.pods = {"b", "a", "b"}, .count = 1};
  EXPECT_EQ(TargetText(target), "Pod/a,b");
  target = {.selector = "app=train"};
  EXPECT_EQ(TargetText(target), "Selector/app=train");
}

TEST(TargetText, IsBoundedAndStillTellsTargetsApart) {
  TargetSpec many, others;
  for (int i = 0; i < 500; ++i) {
    many.pods.push_back(StrCat("worker-", i));
    others.pods.push_back(StrCat("worker-", i));
  }
  EXPECT_EQ(TargetText(many), TargetText(others));
  others.pods.back() = "worker-x";
  EXPECT_NE(TargetText(many), TargetText(others));
  EXPECT_LT(TargetText(many).size(), 230u);
}

TEST(TextOfTargets, NamesEachTarget) {
  TargetSpec prefill, decode;
  prefill.job = kube::JobRef{"", "Deployment", "vllm-p"};
  EXPECT_EQ(TextOfTargets(std::vector{prefill}), "Deployment/vllm-p");
  prefill.name = "prefill";
  decode.name = "decode";
  decode.selector = "app=vllm-d";
  EXPECT_EQ(TextOfTargets(std::vector{prefill, decode}),
            "prefill=Deployment/vllm-p,decode=Selector/app=vllm-d");
  decode.selector = std::string(1000, 'x');
  EXPECT_LE(TextOfTargets(std::vector{prefill, decode}).size(), 220u);
}

}  // namespace
}  // namespace strobe::job
