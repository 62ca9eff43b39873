#include "sidecar/source/device/device_activity.h"

#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <limits>

#include "agent/wire/cut_name.h"

namespace strobe::source {
namespace {

using wire::RecordType;

constexpr std::uint64_t kPlenty = 1 << 20;

template <typename T>
bool Add(DeviceActivity& activity, RecordType type, const T& record, std::uint64_t& budget) {
  const auto words = std::bit_cast<std::array<std::uint64_t, wire::kWordsOf<T>>>(record);
  return activity.Add(type, words, budget);
}

TEST(DeviceActivity, KeepsWhatTheBudgetHolds) {
  DeviceActivity activity;
  std::uint64_t budget = 2 * sizeof(wire::KernelRecord);
  EXPECT_TRUE(Add(activity, RecordType::kKernel, wire::KernelRecord{.begin = 1}, budget));
  EXPECT_TRUE(Add(activity, RecordType::kKernel, wire::KernelRecord{.begin = 2}, budget));
  EXPECT_FALSE(Add(activity, RecordType::kKernel, wire::KernelRecord{.begin = 3}, budget));
  ASSERT_EQ(activity.kernels.size(), 2u);
  EXPECT_EQ(activity.kernels[1].begin, 2u);
}

TEST(DeviceActivity, PassesOverWhatIsNoRecord) {
  DeviceActivity activity;
  std::uint64_t budget = kPlenty;
  const std::array<std::uint64_t, 2> rubbish = {~0ull, ~0ull};
  for (int type = 0; type < 256; ++type) {
    EXPECT_TRUE(activity.Add(static_cast<RecordType>(type), rubbish, budget));
    EXPECT_TRUE(activity.Add(static_cast<RecordType>(type), {}, budget));
  }
  EXPECT_TRUE(activity.kernels.empty());
  EXPECT_TRUE(activity.texts.empty()) << "its size lies beyond the record";
}

TEST(DeviceActivity, KnowsTextsByNumber) {
  DeviceActivity activity;
  std::uint64_t budget = kPlenty;
  const std::array<std::uint64_t, 2> text = {4ull << 32 | 9, 0x6c656e72656bull};
  EXPECT_TRUE(activity.Add(RecordType::kText, text, budget));
  EXPECT_EQ(activity.Text(9), "kern");
  EXPECT_EQ(activity.Text(8), "?");
}

TEST(DeviceActivity, BelievesInNoMoreDevicesThanThereAre) {
  DeviceActivity activity;
  std::uint64_t budget = kPlenty;
  for (std::uint32_t i = 0; i < 1000; ++i)
    EXPECT_TRUE(Add(activity, RecordType::kDevice, wire::DeviceRecord{.ordinal = i}, budget));
  EXPECT_EQ(activity.devices.size(), 64u);
}

TEST(DeviceActivity, KeepsADeviceThatIsDescribedAgainOnce) {
  DeviceActivity activity;
  std::uint64_t budget = kPlenty;
  const wire::DeviceRecord device{.uuid = {1}}, other{.uuid = {2}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Add(activity, RecordType::kDevice, device, budget));
    EXPECT_TRUE(Add(activity, RecordType::kDevice, other, budget));
  }
  EXPECT_EQ(activity.devices.size(), 2u);
}

TEST(DeviceActivity, CountsNamesThatWereCut) {
  const std::string whole(wire::kMaxTextBytes, 'x'), begin(whole.size() - wire::kCutEndBytes, 'x');
  DeviceActivity activity;
  activity.texts = {{1, whole},
                    {2, begin + "...0123456789abcdef"},
                    {3, begin.substr(2) + "...0123456789abcdef"},
                    {4, "short...0123456789abcdef"}};
  EXPECT_EQ(activity.CutNames(), 2u);
}

TEST(DeviceActivity, CountsKernelsWithTimesThatCannotBeTrue) {
  constexpr std::uint64_t kMs = 1'000'000;
  DeviceActivity activity;
  activity.calls = {{.begin = 10 * kMs, .end = 11 * kMs, .correlation = 1},
                    {.begin = 20 * kMs, .end = 21 * kMs, .correlation = 2},
                    {.begin = 30 * kMs, .end = 31 * kMs, .correlation = 3}};
  const auto kernel = [&](std::uint64_t begin, std::uint64_t end, std::uint32_t correlation,
                          std::uint32_t stream) {
    activity.kernels.push_back(
        {.begin = begin, .end = end, .stream = stream, .correlation = correlation});
  };
  kernel(10 * kMs - 90'000, 12 * kMs, 1, 7);  // Clocks differ by so much.
  kernel(20 * kMs, 22 * kMs, 2, 7);
  kernel(0, 0, 3, 7);   // It still ran when recording ended.
  kernel(1, 2, 99, 7);  // Nobody knows when it was launched.
  EXPECT_EQ(activity.MistimedKernels(), 1u) << "99 is after 3 on its stream";
  activity.kernels.pop_back();
  EXPECT_EQ(activity.MistimedKernels(), 0u);
  kernel(5 * kMs, 6 * kMs, 2, 8);
  EXPECT_EQ(activity.MistimedKernels(), 1u) << "before its launch";
  kernel(0, 0, 1, 8);
  kernel(40 * kMs, 39 * kMs, 1, 8);
  EXPECT_EQ(activity.MistimedKernels(), 3u) << "what came after it on its stream has ended";
}

// Regression: correlations that are multiples of a std::unordered_map's number of buckets were all
// in one.
TEST(DeviceActivity, CorrelationsThatCollideAreFoundAsFast) {
  constexpr std::uint32_t kBuckets = 42'043;
  DeviceActivity activity;
  for (std::uint32_t i = 1; i <= 40'000; ++i)
    activity.calls.push_back({.begin = 1'000'000'000, .correlation = i * kBuckets});
  activity.kernels.resize(700'000, {.begin = 5, .end = 6, .correlation = kBuckets});
  EXPECT_EQ(activity.MistimedKernels(), activity.kernels.size());
}

TEST(DeviceClock, GoesThroughEveryMoment) {
  const DeviceClock clock({{1000, 50}, {2000, 250}, {4000, 450}});
  EXPECT_EQ(clock.Ticks(1000), 50u);
  EXPECT_EQ(clock.Ticks(1500), 150u);
  EXPECT_EQ(clock.Ticks(3000), 350u);
  EXPECT_EQ(clock.Ticks(500), static_cast<std::uint64_t>(-50)) << "before: the first line goes on";
  EXPECT_EQ(clock.Ticks(5000), 550u) << "after: the last one does";
}

TEST(DeviceClock, OneMomentIsBetterThanNone) {
  EXPECT_FALSE(DeviceClock({}).is_known());
  EXPECT_EQ(DeviceClock({}).Ticks(77), 0u);
  EXPECT_EQ(DeviceClock({{1000, 50}}).Ticks(77), 50u);
  EXPECT_EQ(DeviceClock({{1000, 50}, {1000, 60}}).Ticks(77), 50u);
}

TEST(DeviceClock, TellsAJumpFromADrift) {
  const std::uint64_t second = 1'000'000'000;
  EXPECT_EQ(DeviceClock({{0, 0}, {second, second}}).jump_ns(1), 0u);
  EXPECT_EQ(DeviceClock({{0, 0}, {second + 900'000, second}}).jump_ns(1), 0u);
  EXPECT_EQ(
      DeviceClock({{0, 0}, {second, second}, {2 * second + 50'000'000, 2 * second}}).jump_ns(1),
      50'000'000u);
  EXPECT_EQ(DeviceClock({{0, 0}, {second - 50'000'000, second}}).jump_ns(1), 50'000'000u);
}

// A hostile program may write any time stamps.
TEST(DeviceClock, TakesAnyNumbers) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  const DeviceClock clock({{0, kMax}, {1, 0}, {kMax, 5}});
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{1}, kMax / 2, kMax})
    clock.Ticks(at);
  clock.jump_ns(1e-9);
  clock.jump_ns(1e9);
}

}  // namespace
}  // namespace strobe::source
