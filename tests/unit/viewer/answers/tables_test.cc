#include "viewer/answers/tables.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "tests/unit/viewer/made_run.h"
#include "tests/unit/viewer/two_workers.h"

namespace strobe::viewer {
namespace {

nlohmann::json Ask(const LoadedRun& run, std::string_view table,
                   std::optional<std::uint32_t> worker = std::nullopt) {
  const absl::StatusOr<std::string> answer = TableOf(run, table, worker);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return nlohmann::json::parse(answer.ok() ? *answer : "null");
}

// A worker with two kernels of `length_us` each.
std::string KernelTrace(std::int64_t length_us) {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  for (std::int64_t i = 0; i < 2; ++i) {
    gpu.AddEvent(gpu.EventId("gemm"), i * 1'000'000'000, length_us * 1'000'000);
    gpu.AddEventStat(gpu.StatId("kernel_details"),
                     xplane::Ref{"regs:40 static_shared:512 dynamic_shared:64 grid:2,3,1 "
                                 "block:128,1,1 occ_pct:50"});
  }
  return gpu.Encode();
}

TEST(TableOf, KernelsOfOneWorkerAndOfAllWithTheOddOne) {
  const LoadedRun run = MadeRun({KernelTrace(10), KernelTrace(10), KernelTrace(40)});
  const nlohmann::json one = Ask(run, "kernels", 2);
  EXPECT_EQ(one["worker"], 2);
  ASSERT_EQ(one["rows"].size(), 1u);
  const nlohmann::json& gemm = one["rows"][0];
  EXPECT_EQ(gemm["name"], "gemm");
  EXPECT_EQ(gemm["count"], 2);
  EXPECT_EQ(gemm["totalPs"], 80'000'000);
  EXPECT_EQ(gemm["maxPs"], 40'000'000);
  EXPECT_EQ(gemm["grid"], "2,3,1");
  EXPECT_EQ(gemm["block"], "128,1,1");
  EXPECT_EQ(gemm["registers"], "40");
  EXPECT_EQ(gemm["sharedBytes"], "512");
  EXPECT_EQ(gemm["occupancy"], 50);
  EXPECT_EQ(gemm["tensorCores"], false);
  EXPECT_FALSE(gemm.contains("odd"));
  EXPECT_EQ(one["devicePs"], 80'000'000);
  const nlohmann::json all = Ask(run, "kernels");
  EXPECT_EQ(all["worker"], nullptr);
  EXPECT_EQ(all["rows"][0]["count"], 6);
  EXPECT_EQ(all["rows"][0]["workers"], 3);
  EXPECT_EQ(all["rows"][0]["odd"]["worker"], 2);
  EXPECT_EQ(all["rows"][0]["odd"]["medianPs"], 20'000'000);
}

// The second worker's steps are longer; those in the middle are from begin to begin.
TEST(TableOf, StepsAreThoseOfTheReport) {
  const LoadedRun run = MadeRun(TwoWorkers());
  const nlohmann::json one = Ask(run, "steps", 1);
  ASSERT_EQ(one["rows"].size(), 8u);
  EXPECT_EQ(one["rows"][0]["number"], 0);
  EXPECT_EQ(one["rows"][0]["name"], "train");
  const nlohmann::json all = Ask(run, "steps");
  ASSERT_EQ(all["rows"].size(), 8u);
  EXPECT_EQ(all["rows"][3]["workers"], 2);
  EXPECT_EQ(all["rows"][3]["maxPs"], one["rows"][3]["totalPs"]);
  EXPECT_EQ(all["rows"][3]["computePs"], nullptr) << "the traces tell of no device";
  EXPECT_EQ(all["rows"][3]["odd"], nullptr);
}

TEST(TableOf, MemoryHasItsCurveOfOneWorkerOnly) {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(1, xplane::kCounterLine, 0);
  for (std::int64_t i = 0; i < 4; ++i) {
    gpu.AddEvent(gpu.EventId("Total Allocated"), i * 1'000'000, 0);
    gpu.AddEventStat(gpu.StatId("Total Allocated"), i == 2 ? std::int64_t{900} : i);
  }
  const LoadedRun run = MadeRun({gpu.Encode()});
  const nlohmann::json all = Ask(run, "memory");
  ASSERT_EQ(all["rows"].size(), 1u);
  EXPECT_EQ(all["rows"][0]["peak"], 900);
  EXPECT_EQ(all["rows"][0]["peakAtPs"], 2'000'000);
  EXPECT_FALSE(all["rows"][0].contains("points"));
  const nlohmann::json one = Ask(run, "memory", 0);
  EXPECT_EQ(one["rows"][0]["points"].size(), 4u);
  EXPECT_FALSE(one["rows"][0].contains("alive")) << "single allocations are not told";
}

TEST(TableOf, TracesAreReadOnceAndAFailureIsNotKept) {
  LoadedRun run = MadeRun({KernelTrace(10)});
  auto& content = run.workers.at(0).files->trace.content;
  auto whole = std::exchange(content, std::make_unique<const std::string>("\xff"));
  EXPECT_FALSE(TableOf(run, "kernels", 0).ok());
  std::swap(content, whole);
  const absl::StatusOr<std::string> first = TableOf(run, "kernels", 0);
  ASSERT_TRUE(first.ok()) << first.status();
  std::swap(content, whole);
  const absl::StatusOr<std::string> again = TableOf(run, "kernels", 0);
  ASSERT_TRUE(again.ok()) << "a trace was read again: " << again.status();
  EXPECT_EQ(*again, *first);
  EXPECT_TRUE(TableOf(run, "operators", 0).ok()) << "it was made with the other tables";
  std::swap(content, whole);  // The run refers to these bytes.
}

TEST(TableOf, RefusesWhatThereIsNot) {
  const LoadedRun run = MadeRun({KernelTrace(10)});
  EXPECT_TRUE(absl::IsNotFound(TableOf(run, "dreams", std::nullopt).status()));
  EXPECT_TRUE(absl::IsNotFound(TableOf(run, "", 0).status()));
  EXPECT_TRUE(absl::IsNotFound(TableOf(run, "kernels", 1).status()));
  EXPECT_TRUE(absl::IsCancelled(TableOf(run, "steps", 0, [] { return true; }).status()));
}

}  // namespace
}  // namespace strobe::viewer
