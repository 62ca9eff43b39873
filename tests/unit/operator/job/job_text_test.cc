#include "operator/job/job_text.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe {
namespace {

TEST(TargetText, NamesTheJobWhateverIsRecordedOfIt) {
  TargetSpec target;
  target.job = JobRef{"", "JobSet", "llm"};
  target.rotation = 7;
  EXPECT_EQ(TargetText(target), "JobSet/llm");
  target.job = JobRef{"jobset.x-k8s.io/v1alpha2", "JobSet", "llm"};
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

}  // namespace
}  // namespace strobe
