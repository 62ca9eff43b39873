#include "viewer/answers/arrows.h"

#include <gmock/gmock.h>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"
#include "tests/unit/viewer/made_run.h"

namespace strobe::viewer {
namespace {

constexpr std::int64_t kEnd = 1'000'000'000'000;

// `launches` launches on one of `threads` threads, each 1 us long, 10 us apart, and as many
// kernels, each 5 us after its launch, on one of `streams` streams.
std::string LaunchTrace(int launches, int threads = 1, int streams = 1) {
  xplane::PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0");
  for (int t = 0; t < threads; ++t) {
    host.BeginLine(t + 1, StrCat("thread ", t), 0);
    for (int i = t; i < launches; i += threads) {
      host.AddEvent(host.EventId("launch"), i * 10'000'000ll, 1'000'000);
      host.AddEventStat(host.StatId("correlation_id"), static_cast<std::uint64_t>(i + 1));
    }
  }
  for (int s = 0; s < streams; ++s) {
    gpu.BeginLine(s + 100, StrCat("stream ", s), 0);
    for (int i = s; i < launches; i += streams) {
      gpu.AddEvent(gpu.EventId("kernel"), i * 10'000'000ll + 5'000'000, 2'000'000);
      gpu.AddEventStat(gpu.StatId("correlation_id"), static_cast<std::uint64_t>(i + 1));
    }
  }
  return host.Encode() + gpu.Encode();
}

std::vector<std::uint32_t> AllRows(const LoadedRun& run) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = 0; row < run.rows.size(); ++row) rows.push_back(row);
  return rows;
}

std::uint64_t Sum(const Bundles& found) {
  std::uint64_t sum = 0;
  for (const Bundle& bundle : found.bundles) sum += bundle.count;
  return sum;
}

TEST(ArrowBundles, EveryArrowIsThereOnceWhenTheyFit) {
  const LoadedRun run = MadeRun({LaunchTrace(3000)});
  const Bundles found = BundleArrows(run, {.rows = AllRows(run), .end_ps = kEnd});
  EXPECT_EQ(found.total, 3000u);
  EXPECT_EQ(found.drawn, 3000u);
  ASSERT_EQ(found.bundles.size(), 3000u);
  for (const Bundle& bundle : found.bundles) {
    EXPECT_EQ(bundle.count, 1u);
    EXPECT_EQ(bundle.from.row, RowNamed(run, "thread 0"));
    EXPECT_EQ(bundle.to.row, RowNamed(run, "stream 0"));
    EXPECT_EQ(bundle.from.at_ps % 10'000'000, 1'000'000) << "at the launch's end";
    EXPECT_EQ(bundle.to.at_ps - bundle.from.at_ps, 4'000'000);
  }
}

TEST(ArrowBundles, ArrowsThatCannotBeToldApartAreJoinedAndCounted) {
  const LoadedRun run = MadeRun({LaunchTrace(3000)});
  // 2^27 ps are 13 launches; the last ones begin after 29.99 ms.
  const Bundles found = BundleArrows(run, {.rows = AllRows(run), .end_ps = kEnd, .level = 27});
  EXPECT_EQ(found.total, 3000u);
  EXPECT_EQ(Sum(found), 3000u);
  EXPECT_EQ(found.drawn, 3000u);
  EXPECT_GE(found.bundles.size(), 30'000'000'000ull >> 27);
  EXPECT_LE(found.bundles.size(), 2 * (30'000'000'000ull >> 27) + 2);
}

TEST(ArrowBundles, TheAnswerIsBoundedAtEveryLevel) {
  const LoadedRun run = MadeRun({LaunchTrace(3000, 8, 8)});
  for (const std::uint32_t limit : {1u, 7u, 64u, 100u, 2999u}) {
    const Bundles found = BundleArrows(run, {.rows = AllRows(run), .end_ps = kEnd, .limit = limit});
    EXPECT_LE(found.bundles.size(), limit);
    EXPECT_EQ(found.total, 3000u) << "whatever is drawn, all are counted";
    EXPECT_EQ(found.drawn, Sum(found));
    if (limit >= 8) {
      EXPECT_EQ(found.drawn, 3000u) << "eight pairs of rows are used: " << limit;
    } else {
      EXPECT_LT(found.drawn, 3000u);
      EXPECT_GT(found.drawn, 0u);
    }
  }
}

TEST(ArrowBundles, OneEndInTheWindowIsEnough) {
  const LoadedRun run = MadeRun({LaunchTrace(100)});
  const std::uint32_t stream = RowNamed(run, "stream 0"), thread = RowNamed(run, "thread 0");
  // The tenth kernel runs from 105 to 107 us, its launch from 100 to 101.
  const auto in = [&](std::vector<std::uint32_t> rows, std::int64_t begin, std::int64_t end) {
    return BundleArrows(run, {.rows = std::move(rows), .begin_ps = begin, .end_ps = end});
  };
  EXPECT_EQ(in({stream, thread}, 105'500'000, 106'000'000).total, 1u);
  EXPECT_EQ(in({stream}, 105'500'000, 106'000'000).total, 1u) << "the thread is not in sight";
  EXPECT_EQ(in({stream, thread}, 100'000'000, 106'000'000).total, 1u) << "both ends, yet once";
  EXPECT_EQ(in({stream, stream, thread}, 0, kEnd).total, 100u) << "a row that is named twice";
  EXPECT_EQ(in({}, 0, kEnd).total, 0u);
  EXPECT_EQ(in({99'999}, 0, kEnd).total, 0u) << "there is no such row";
}

TEST(ArrowBundles, WorkersDoNotMix) {
  const LoadedRun run = MadeRun({LaunchTrace(50), LaunchTrace(70)});
  const Bundles found = BundleArrows(run, {.rows = AllRows(run), .end_ps = kEnd});
  EXPECT_EQ(found.total, 120u);
  for (const Bundle& bundle : found.bundles)
    EXPECT_EQ(run.rows[bundle.from.row].worker, run.rows[bundle.to.row].worker);
}

TEST(ArrowBundles, TimesAtTheLimitsDoNotOverflow) {
  xplane::PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0");
  constexpr std::int64_t kMaxNs = std::numeric_limits<std::int64_t>::max();
  host.BeginLine(1, "thread", 0);
  gpu.BeginLine(2, "stream", 0);
  for (const std::int64_t at : {-kMaxNs, std::int64_t{0}, kMaxNs}) {
    host.AddEvent(host.EventId("launch"), at, kMaxNs);
    host.AddEventStat(host.StatId("correlation_id"), std::uint64_t{7});
    gpu.AddEvent(gpu.EventId("kernel"), -at, kMaxNs);
    gpu.AddEventStat(gpu.StatId("correlation_id"), std::uint64_t{7});
  }
  const LoadedRun run = MadeRun({host.Encode() + gpu.Encode()});
  const Bundles found = BundleArrows(
      run, {.rows = AllRows(run), .begin_ps = -kMaxTimePs, .end_ps = kMaxTimePs, .limit = 1});
  EXPECT_EQ(found.drawn, Sum(found));
}

}  // namespace
}  // namespace strobe::viewer
