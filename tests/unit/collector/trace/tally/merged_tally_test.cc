#include "collector/trace/tally/merged_tally.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace strobe::tally {
namespace {

using Values = std::vector<std::optional<std::int64_t>>;

TEST(FindOdd, NamesTheWorkerThatIsFarFromTheOthers) {
  const auto odd = FindOdd(Values{100, 101, 99, 100, 180, 102, 98, 100});
  ASSERT_TRUE(odd.has_value());
  EXPECT_EQ(odd->worker, 4u);
  EXPECT_EQ(odd->total_ps, 180);
  EXPECT_EQ(odd->median_ps, 100);
  const auto less = FindOdd(Values{100, 101, 10, 100});
  ASSERT_TRUE(less.has_value()) << "also one that takes less: the others wait for it";
  EXPECT_EQ(less->worker, 2u);
}

TEST(FindOdd, IsSilentAboutUsualDifferences) {
  EXPECT_FALSE(FindOdd(Values{100, 101, 99, 105}).has_value()) << "less than a tenth";
  EXPECT_FALSE(FindOdd(Values{100, 150, 200, 250, 300}).has_value()) << "all differ";
  EXPECT_FALSE(FindOdd(Values{100, 900}).has_value()) << "which of two is odd?";
  EXPECT_FALSE(FindOdd(Values{}).has_value());
  EXPECT_FALSE(FindOdd(Values{std::nullopt, std::nullopt, 5}).has_value()) << "most have none";
}

TEST(FindOdd, AWorkerWithoutTheRowIsOddIfTheOthersHaveIt) {
  const auto odd = FindOdd(Values{100, std::nullopt, 100, 101});
  ASSERT_TRUE(odd.has_value());
  EXPECT_EQ(odd->worker, 1u);
  EXPECT_EQ(odd->total_ps, 0);
}

Tally TallyOf(std::int64_t time_ps, std::string_view launched_by) {
  Tally tally{.device_ps = time_ps};
  tally.kernels.rows.push_back({.name = "gemm",
                                .kind = "kernel",
                                .count = 2,
                                .total_ps = time_ps,
                                .self_ps = time_ps,
                                .max_ps = time_ps / 2 + 1,
                                .launched_by = launched_by,
                                .category = "fusion",
                                .flops = 50,
                                .accessed_bytes = 8});
  tally.communication.rows.push_back({.name = "ncclDevKernel_AllReduce",
                                      .kind = "device",
                                      .count = 1,
                                      .total_ps = 1000 - time_ps,
                                      .self_ps = 1000 - time_ps,
                                      .group = "0",
                                      .ranks = 4,
                                      .bytes = 64,
                                      .exposed_ps = 7,
                                      .bytes_per_s = static_cast<double>(time_ps)});
  return tally;
}

TEST(TallyMerger, SumsWorkersAndNamesTheOddOne) {
  Merger merger(4);
  for (std::uint32_t worker = 0; worker < 4; ++worker)
    merger.Add(worker, TallyOf(worker == 2 ? 900 : 100, worker == 2 ? "aten::bmm" : "aten::mm"));
  const MergedTally merged = std::move(merger).Finish();
  ASSERT_EQ(merged.kernels.rows.size(), 1u);
  const MergedRow& gemm = merged.kernels.rows[0];
  EXPECT_EQ(gemm.workers, 4u);
  EXPECT_EQ(gemm.sum.count, 8u);
  EXPECT_EQ(gemm.sum.total_ps, 1200);
  EXPECT_EQ(gemm.sum.max_ps, 451);
  EXPECT_EQ(gemm.sum.launched_by, "aten::mm");
  EXPECT_TRUE(gemm.sum.launchers_differ);
  EXPECT_EQ(gemm.sum.category, "fusion");
  EXPECT_EQ(gemm.sum.flops, 200u);
  EXPECT_EQ(gemm.sum.accessed_bytes, 32u);
  ASSERT_TRUE(gemm.odd.has_value());
  EXPECT_EQ(gemm.odd->worker, 2u);
  EXPECT_EQ(gemm.odd->median_ps, 100);
  const MergedRow& call = merged.communication.rows.at(0);
  EXPECT_EQ(call.sum.bytes, 256u);
  EXPECT_EQ(call.sum.exposed_ps, 28);
  EXPECT_DOUBLE_EQ(call.sum.bytes_per_s, 900) << "the fastest one waits least";
  EXPECT_EQ(call.odd->worker, 2u);
  EXPECT_EQ(merged.device_ps, 1200);
}

TEST(TallyMerger, CallsOfOtherGroupsAreOtherRows) {
  Tally first = TallyOf(100, ""), second = TallyOf(100, "");
  second.communication.rows[0].group = "1";
  Merger merger(2);
  merger.Add(0, first);
  merger.Add(1, second);
  EXPECT_EQ(std::move(merger).Finish().communication.rows.size(), 2u);
}

TEST(TallyMerger, RowsAreBounded) {
  Merger merger(2);
  std::vector<std::string> names;
  names.reserve(2 * kMaxRows);
  for (std::uint32_t worker = 0; worker < 2; ++worker) {
    Tally tally;
    for (std::size_t i = 0; i < kMaxRows; ++i) {
      names.push_back("kernel " + std::to_string(worker) + " " + std::to_string(i));
      tally.kernels.rows.push_back({.name = names.back(), .kind = "kernel", .count = 1});
    }
    merger.Add(worker, tally);
  }
  const MergedTally merged = std::move(merger).Finish();
  EXPECT_EQ(merged.kernels.rows.size(), kMaxRows);
  EXPECT_EQ(merged.kernels.left_out, kMaxRows);
}

}  // namespace
}  // namespace strobe::tally
