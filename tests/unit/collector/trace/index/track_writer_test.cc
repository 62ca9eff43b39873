#include "collector/trace/index/track_writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace strobe::index {
namespace {

TEST(TrackWriter, KnowsWhenItsEventsBegin) {
  TrackWriter writer;
  // More than a chunk, so that blocks span two.
  constexpr std::uint32_t kEvents = 200'000;
  const auto begin_of = [](std::uint32_t i) {
    return std::int64_t{i} * i * 1000 - 5'000'000;  // Differences of one to five bytes.
  };
  for (std::uint32_t i = 0; i < kEvents; ++i)
    writer.Add(begin_of(i), begin_of(i) + 7, i % 300, std::uint64_t{i} * 40);
  writer.Finish();
  ASSERT_GT(writer.data.all().size(), 1u);
  // As when the track has its place in the index.
  for (Block& block : writer.blocks) block.data += 12'345;
  for (std::uint32_t i = 0; i < kEvents; i += 61) ASSERT_EQ(writer.BeginOf(i), begin_of(i)) << i;
  EXPECT_EQ(writer.BeginOf(kEvents - 1), begin_of(kEvents - 1));
}

TEST(TrackWriter, HostileTimesDoNotOverflow) {
  constexpr auto kFirst = std::numeric_limits<std::int64_t>::min();
  constexpr auto kLast = std::numeric_limits<std::int64_t>::max();
  TrackWriter writer;
  writer.Add(kFirst, kFirst, 0, 0);
  writer.Add(kLast, kLast, 0, 1);
  writer.Finish();
  EXPECT_EQ(writer.BeginOf(0), kFirst);
  EXPECT_EQ(writer.BeginOf(1), kLast);
}

}  // namespace
}  // namespace strobe::index
