#include "collector/store/cloud_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collector/store/cloud_store_left_out.cc"

namespace strobe::storage {
namespace {

// In a program of its own; stores_test.cc tests the other one.
TEST(CloudStore, ABuildWithoutItSaysSoAndWhatToDo) {
  const auto store = OpenCloudStore(*Logdir::Parse("s3://bucket/logs"), {}, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(store.status())) << store.status();
  EXPECT_THAT(std::string(store.status().message()),
              testing::AllOf(testing::HasSubstr("s3://bucket/logs"), testing::HasSubstr("`make`")));
}

}  // namespace
}  // namespace strobe::storage
