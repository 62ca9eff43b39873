#include "collector/trace/digest/collective_rows.h"

#include <gmock/gmock.h>

#include <string>

#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"

namespace strobe::digest {
namespace {

using xplane::PlaneBuilder;
using xplane::Ref;

void AddCall(PlaneBuilder& plane, std::string_view name, std::int64_t begin_us, std::int64_t end_us,
             std::int64_t number) {
  plane.AddEvent(plane.EventId(std::string("nccl:") + std::string(name)), begin_us * 1'000'000,
                 (end_us - begin_us) * 1'000'000);
  plane.AddEventStat(plane.StatId("Collective name"), Ref{name});
  plane.AddEventStat(plane.StatId("Process Group Name"), Ref{"0xabc"});
  plane.AddEventStat(plane.StatId("Group size"), std::int64_t{8});
  plane.AddEventStat(plane.StatId("In msg nelems"), std::uint64_t{1024});
  plane.AddEventStat(plane.StatId("dtype"), Ref{"Float"});
  plane.AddEventStat(plane.StatId("Seq"), number);
}

Digest DigestOfRows(const std::string& trace) {
  const absl::StatusOr<xplane::Space> space = xplane::Space::Read(trace);
  EXPECT_TRUE(MayHaveCollectives(*space));
  absl::StatusOr<Digest> digest = ComputeDigest(*space, "w");
  EXPECT_TRUE(digest.ok()) << digest.status();
  return *std::move(digest);
}

std::string Rows(bool measured) {
  PlaneBuilder plane(xplane::kCollectivesPlane);
  plane.BeginLine(0, "0xabc rank 3 of 8", 0);
  AddCall(plane, "AllReduce", 100, 103, 41);
  AddCall(plane, "Send", 110, 112, 7);
  if (measured) {
    plane.BeginLine(1, std::string("0xabc rank 3 of 8") + std::string(xplane::kOnDevice), 0);
    AddCall(plane, "AllReduce", 120, 190, 41);
  }
  return plane.Encode();
}

TEST(CollectiveRows, BecomeCollectivesWithoutAProfilerOfDevices) {
  const Digest digest = DigestOfRows(Rows(/*measured=*/false));
  ASSERT_EQ(digest.collectives.size(), 1u) << "sends are left out";
  const Collective& call = digest.collectives[0];
  EXPECT_EQ(call.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(call.begin_ns, 100'000);
  EXPECT_EQ(call.sequence, 41);
  EXPECT_EQ(call.bytes, 4096u);
  EXPECT_EQ(call.device, kNoDevice);
  EXPECT_EQ(digest.communicators.at(0).name, "0xabc");
  EXPECT_EQ(digest.communicators.at(0).size, 8u);
  EXPECT_TRUE(digest.knows.device_untold) << "what the host did is no picture of the job";
}

TEST(CollectiveRows, TheDevicesTimesCountWhereTheyWereMeasured) {
  const Digest digest = DigestOfRows(Rows(/*measured=*/true));
  ASSERT_EQ(digest.collectives.size(), 1u);
  EXPECT_EQ(digest.collectives[0].begin_ns, 120'000);
  EXPECT_EQ(digest.collectives[0].end_ns, 190'000);
}

TEST(CollectiveRows, AGroupThatWasNotMeasuredKeepsItsCalls) {
  PlaneBuilder plane(xplane::kCollectivesPlane);
  plane.BeginLine(0, "0xabc rank 3 of 8", 0);
  AddCall(plane, "AllReduce", 100, 103, 41);
  plane.BeginLine(1, std::string("0xabc rank 3 of 8") + std::string(xplane::kOnDevice), 0);
  AddCall(plane, "AllReduce", 120, 190, 41);
  plane.BeginLine(2, "0xdef rank 0 of 2", 0);
  AddCall(plane, "AllReduce", 200, 203, 9);
  const Digest digest = DigestOfRows(plane.Encode());
  ASSERT_EQ(digest.collectives.size(), 2u);
  EXPECT_EQ(digest.collectives[0].begin_ns, 120'000);
  EXPECT_EQ(digest.collectives[1].begin_ns, 200'000);
}

// Otherwise each would be counted twice.
TEST(CollectiveRows, CountForNothingBesideADevicesOwnCollectives) {
  PlaneBuilder device("/device:GPU:0");
  device.BeginLine(7, "Stream #7(Compute)", 0);
  device.AddEvent(device.EventId("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"),
                  130'000'000, 50'000'000);
  const Digest digest = DigestOfRows(Rows(/*measured=*/true) + device.Encode());
  ASSERT_EQ(digest.collectives.size(), 1u);
  EXPECT_EQ(digest.collectives[0].device, 0u);
  EXPECT_EQ(digest.collectives[0].begin_ns, 130'000);
}

// A barrier through Gloo is none of the library's calls.
TEST(CollectiveRows, CountBesideTheCollectivesOfHosts) {
  PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("gloo:barrier"), 10'000'000, 5'000'000);
  const Digest digest = DigestOfRows(Rows(/*measured=*/true) + host.Encode());
  ASSERT_EQ(digest.collectives.size(), 2u);
  EXPECT_EQ(digest.collectives[0].begin_ns, 10'000);
  EXPECT_EQ(digest.collectives[1].begin_ns, 120'000);
}

// Regression: each row looked through the names of all stats.
TEST(CollectiveRows, MayBeManyBesideManyNames) {
  constexpr std::int64_t kRows = 30'000;
  PlaneBuilder plane(xplane::kCollectivesPlane);
  for (int i = 0; i < 100'000; ++i) plane.StatId(std::to_string(i));
  for (std::int64_t i = 0; i < kRows; ++i) {
    plane.BeginLine(i, std::to_string(i), 0);
    AddCall(plane, "AllReduce", i, i + 1, i);
  }
  EXPECT_EQ(DigestOfRows(plane.Encode()).collectives.size(), static_cast<std::size_t>(kRows));
}

}  // namespace
}  // namespace strobe::digest
