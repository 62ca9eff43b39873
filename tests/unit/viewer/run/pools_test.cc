#include "viewer/run/pools.h"

#include <gmock/gmock.h>

namespace strobe::viewer {
namespace {

using testing::Each;
using testing::ElementsAre;

TEST(Pools, TheNumberBehindTheNameIsNoPartOfThePool) {
  EXPECT_EQ(PoolOf("tf_XLAEigen/1820674387824816815"), "tf_XLAEigen");
  EXPECT_EQ(PoolOf("tf_XLAEigen/-1820674387824816815"), "tf_XLAEigen");
  EXPECT_EQ(PoolOf("tf_data_private_threadpool/7/12"), "tf_data_private_threadpool/7");
  EXPECT_EQ(PoolOf("worker-3"), "worker");
  EXPECT_EQ(PoolOf("ThreadPoolExecutor-0_3"), "ThreadPoolExecutor-0");
  EXPECT_EQ(PoolOf("Thread-12 (serve)"), "Thread (serve)");
  EXPECT_EQ(PoolOf("python"), "python");
  EXPECT_EQ(PoolOf("tpu_v4"), "tpu_v4") << "nothing separates the number";
}

TEST(Pools, OddNamesArePoolsOfTheirOwn) {
  for (const std::string_view name : {"", "123", "/7", "-7", " (x)", "_", "é/1é", "(((((", "7 (f)"})
    EXPECT_EQ(PoolOf(name), name);
}

TEST(Pools, OneThreadAloneIsNoPool) {
  EXPECT_THAT(FindPools({"python", "tf_XLAEigen/1", "tf_XLAEigen/2", "grpc/9"}),
              ElementsAre("", "tf_XLAEigen", "tf_XLAEigen", ""));
  EXPECT_THAT(FindPools({"python", "python"}), Each("python")) << "threads of the same name";
  EXPECT_THAT(FindPools({"", ""}), Each(""));
}

}  // namespace
}  // namespace strobe::viewer
