#include "collector/trace/tally/host_names.h"

#include <gtest/gtest.h>

namespace strobe::tally {
namespace {

// The categories are those that Kineto writes; XLA writes none.
TEST(HostKindOf, FollowsTheCategoryAndWithoutOneTheName) {
  EXPECT_EQ(HostKindOf("aten::mm", "cpu_op"), HostKind::kOperator);
  EXPECT_EQ(HostKindOf("aten::mm", "Operator"), HostKind::kOperator);
  EXPECT_EQ(HostKindOf("ProfilerStep#3", "user_annotation"), HostKind::kAnnotation);
  EXPECT_EQ(HostKindOf("cudaLaunchKernel", "cuda_runtime"), HostKind::kRuntime);
  EXPECT_EQ(HostKindOf("cuLaunchKernel", "cuda_driver"), HostKind::kRuntime);
  EXPECT_EQ(HostKindOf("cudaLaunchKernel", "Runtime"), HostKind::kRuntime);
  EXPECT_EQ(HostKindOf("nn.Module: Linear_3", "python_function"), HostKind::kModule);
  EXPECT_EQ(HostKindOf("model.py(184): forward", "python_function"), HostKind::kPython);
  EXPECT_EQ(HostKindOf("PyTorch Profiler (0)", "Trace"), HostKind::kNone);
  EXPECT_EQ(HostKindOf("Buffer Flush", "overhead"), HostKind::kNone);
  EXPECT_EQ(HostKindOf("Iteration Start: PyTorch Profiler", ""), HostKind::kNone);
  EXPECT_EQ(HostKindOf("Record Window End", ""), HostKind::kNone);
  EXPECT_EQ(HostKindOf("$train.py:12 step", ""), HostKind::kPython);
  EXPECT_EQ(HostKindOf("PjitFunction(step)", ""), HostKind::kOperator);
  EXPECT_EQ(HostKindOf("cuLaunchKernel", ""), HostKind::kRuntime);
  EXPECT_EQ(HostKindOf("custom-call.3", ""), HostKind::kOperator);
}

TEST(HostKindName, NamesAll) {
  EXPECT_EQ(HostKindName(HostKind::kOperator), "operator");
  EXPECT_EQ(HostKindName(HostKind::kModule), "module");
  EXPECT_EQ(HostKindName(HostKind::kNone), "other");
}

}  // namespace
}  // namespace strobe::tally
