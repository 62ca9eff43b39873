#include "sidecar/source/base/engine_work.h"

#include <gmock/gmock.h>

namespace strobe::source {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::optional<v1::EngineWork> WorkIn(std::string_view line) {
  return EngineWorkIn(json::parse(line));
}

TEST(EngineWork, IsReadFromTheLastLine) {
  const auto work = WorkIn(
      R"({"engine": {"iterations": 148, "prefills": 7, "dummies": 2, "requests": 9,
          "prefill_tokens": 1412, "decode_tokens": 131, "running": 3, "waiting": 0}})");
  ASSERT_TRUE(work);
  EXPECT_EQ(work->iterations(), 148u);
  EXPECT_EQ(work->dummies(), 2u);
  EXPECT_EQ(work->running(), 3u);
  EXPECT_TRUE(work->has_waiting());
  EXPECT_FALSE(HadNoRequests(*work));
  EXPECT_EQ(EngineWords(*work),
            "148 iterations (7 with prefill), 9 requests, 1412 prompt and 131 generated tokens");
}

TEST(EngineWork, WithoutRequestsItSaysWhatHelps) {
  const auto work =
      WorkIn(R"({"engine": {"iterations": 0, "dummies": 12, "running": 0, "waiting": 0}})");
  ASSERT_TRUE(work && HadNoRequests(*work));
  EXPECT_EQ(EngineWords(*work),
            "NoRequests: no request ran in the window: 0 iterations, 12 batches without requests, "
            "running 0, waiting 0; send load to every engine, or capture while requests run");
}

TEST(EngineWork, AProcessThatOnlySchedulesHasNoIterations) {
  const auto work = WorkIn(R"({"engine": {"running": 4, "waiting": 7}})");
  ASSERT_TRUE(work);
  EXPECT_FALSE(work->has_iterations());
  EXPECT_FALSE(HadNoRequests(*work));
  EXPECT_THAT(EngineWords(*work), HasSubstr("running 4, waiting 7"));
}

TEST(EngineWork, WhateverAProcessSaysCanBeRead) {
  EXPECT_FALSE(WorkIn("{}"));
  EXPECT_FALSE(WorkIn(R"({"engine": null})"));
  EXPECT_FALSE(WorkIn(R"({"engine": 7})"));
  const auto odd =
      WorkIn(R"({"engine": {"iterations": -1, "requests": "x", "dummies": 18446744073709551615}})");
  ASSERT_TRUE(odd);
  EXPECT_FALSE(odd->has_iterations());
  EXPECT_EQ(odd->requests(), 0u);
  EXPECT_EQ(odd->dummies(), std::uint64_t{1} << 48);
}

}  // namespace
}  // namespace strobe::source
