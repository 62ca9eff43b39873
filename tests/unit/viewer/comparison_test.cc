#include "viewer/comparison.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/viewer/made_run.h"
#include "tests/unit/viewer/two_workers.h"

namespace strobe::viewer {
namespace {

TEST(CompareSteps, TracesAreReadOnceAndAFailureIsNotKept) {
  LoadedRun run = MadeRun(TwoWorkers());
  auto& content = run.workers.at(0).trace.content;
  auto whole = std::exchange(content, std::make_unique<const std::string>("\xff"));
  EXPECT_FALSE(CompareSteps(run).ok());
  std::swap(content, whole);
  const absl::StatusOr<std::string> first = CompareSteps(run);
  ASSERT_TRUE(first.ok()) << first.status();
  std::swap(content, whole);
  const absl::StatusOr<std::string> again = CompareSteps(run);
  ASSERT_TRUE(again.ok()) << "a trace was read again: " << again.status();
  EXPECT_EQ(*again, *first);
  std::swap(content, whole);  // The run refers to these bytes.
}

}  // namespace
}  // namespace strobe::viewer
