#include "collector/store/cloud_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strobe::storage {
namespace {

// This program is linked with cloud_store_left_out.cc; stores_test.cc tests the other one.
TEST(CloudStore, ABuildWithoutItSaysSoAndWhatToDo) {
  const auto store = OpenCloudStore(*Logdir::Parse("s3://bucket/logs"), {}, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(store.status())) << store.status();
  EXPECT_THAT(std::string(store.status().message()),
              testing::AllOf(testing::HasSubstr("s3://bucket/logs"), testing::HasSubstr("`make`")));
}

}  // namespace
}  // namespace strobe::storage
