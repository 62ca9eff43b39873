#include "collector/trace/analysis/derived_lines.h"

#include <gmock/gmock.h>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/lanes.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"

namespace strobe::analysis {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kMs = 1'000'000'000;

// Two steps of three kernels each, launched from the thread of the steps.
std::string Trace(std::string_view device_line = "Stream #13(Compute)") {
  xplane::PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0", 1);
  host.BeginLine(1, "main", 0);
  gpu.BeginLine(13, device_line, 0);
  std::uint64_t correlation = 0;
  for (std::int64_t step = 0; step < 2; ++step) {
    host.AddEvent(host.EventId("train"), step * 10 * kMs, 9 * kMs);
    host.AddEventStat(host.StatId("step_num"), step + 7);
    for (std::int64_t k = 0; k < 3; ++k) {
      ++correlation;
      host.AddEvent(host.EventId("cudaLaunchKernel"), step * 10 * kMs + kMs + k * kMs / 10,
                    (k + 1) * 1'000'000);
      host.AddEventStat(host.StatId("correlation_id"), correlation);
      gpu.AddEvent(gpu.EventId("kernel"), step * 10 * kMs + (2 + k) * kMs, kMs / 2);
      gpu.AddEventStat(gpu.StatId("correlation_id"), correlation);
      gpu.AddEventStat(gpu.StatId("hlo_module"), std::string_view("jit_step"));
      gpu.AddEventStat(gpu.StatId("hlo_op"), std::string_view(k < 2 ? "fusion.1" : "reduce.2"));
      gpu.AddEventStat(gpu.StatId("tf_op"),
                       std::string_view(k < 2 ? "model/dense/dot:MatMul" : "model/sum:Sum"));
      gpu.AddEventStat(gpu.StatId("source"), std::string_view("train.py:8"));
    }
  }
  // An event without a known launch, outside every step.
  gpu.AddEvent(gpu.EventId("loner"), 40 * kMs, kMs);
  gpu.AddEventStat(gpu.StatId("hlo_module"), std::string_view("jit_other"));
  return host.Encode() + gpu.Encode();
}

// Each event of the line as "name begin-end" in milliseconds, with "!" if it is not in lane 0.
// Returns "-" if there is no such line.
std::vector<std::string> Lines(const std::string& derived, std::string_view name) {
  const xplane::Space space = *xplane::Space::Read(derived);
  for (const xplane::Plane& plane : space.planes) {
    for (const xplane::Line& line : plane.lines) {
      if (line.name != name) continue;
      std::vector<std::string> texts;
      const std::vector<xplane::Placed> events = *xplane::PlaceEvents(line);
      for (const xplane::Placed& event : events)
        texts.push_back(StrCat(plane.NameOf(event.event), " ",
                               static_cast<double>(event.begin_ps) / kMs, "-",
                               static_cast<double>(event.end_ps) / kMs, event.lane > 0 ? "!" : ""));
      return texts;
    }
  }
  return {"-"};
}

TEST(DeriveLines, MakesWhatXlaMakes) {
  const std::string derived = *DeriveLines(*xplane::Space::Read(Trace()));
  EXPECT_THAT(Lines(derived, "Steps"), ElementsAre("train 7 2-4.5", "train 8 12-14.5"));
  EXPECT_THAT(Lines(derived, "XLA Modules"),
              ElementsAre("jit_step 2-4.5", "jit_step 12-14.5", "jit_other 40-41"));
  EXPECT_THAT(Lines(derived, "XLA Ops"), ElementsAre("fusion.1 2-3.5", "reduce.2 4-4.5",
                                                     "fusion.1 12-13.5", "reduce.2 14-14.5"));
  EXPECT_THAT(Lines(derived, "Framework Ops"),
              ElementsAre("model/dense/dot 2-3.5", "model/sum 4-4.5", "model/dense/dot 12-13.5",
                          "model/sum 14-14.5"));
  EXPECT_THAT(Lines(derived, "Framework Name Scope"),
              ElementsAre("model 2-4.5", "dense 2-3.5", "model 12-14.5", "dense 12-13.5"));
  EXPECT_THAT(Lines(derived, "Source code"), ElementsAre("train.py:8 2-4.5", "train.py:8 12-14.5"));
}

// XProf shows name scopes of one device only, to be brief. The devices of a pipeline run different
// layers, so that one device cannot stand for the others.
TEST(DeriveLines, EveryGpuHasItsOwnNameScopes) {
  constexpr int kGpus = 3;
  std::string trace;
  for (int device = 0; device < kGpus; ++device) {
    xplane::PlaneBuilder gpu(StrCat("/device:GPU:", device), device + 1);
    gpu.BeginLine(13, "Stream #13(Compute)", 0);
    gpu.AddEvent(gpu.EventId("kernel"), kMs, kMs);
    gpu.AddEventStat(gpu.StatId("tf_op"), StrCat("model/layer", device, "/dot:MatMul"));
    trace += gpu.Encode();
  }
  const std::string derived = *DeriveLines(*xplane::Space::Read(trace));
  const xplane::Space space = *xplane::Space::Read(derived);
  ASSERT_EQ(space.planes.size(), static_cast<std::size_t>(kGpus));
  for (int device = 0; device < kGpus; ++device) {
    const xplane::Plane& plane = space.planes[static_cast<std::size_t>(device)];
    EXPECT_EQ(plane.name, StrCat("/device:GPU:", device));
    std::vector<std::string_view> scopes;
    for (const xplane::Line& line : plane.lines) {
      if (line.name != "Framework Name Scope") continue;
      const std::vector<xplane::Placed> events = *xplane::PlaceEvents(line);
      for (const xplane::Placed& event : events) scopes.push_back(plane.NameOf(event.event));
    }
    EXPECT_THAT(scopes, ElementsAre("model", StrCat("layer", device)));
  }
}

TEST(DeriveLines, LaunchStatsTellTheLongestAndTheAverage) {
  const std::string derived = *DeriveLines(*xplane::Space::Read(Trace()));
  EXPECT_THAT(Lines(derived, "Launch Stats"), ElementsAre("train 7 1-1.203", "train 8 11-11.203"));
  const xplane::Space space = *xplane::Space::Read(derived);
  std::map<std::string, double> stats;
  const xplane::Plane& plane = space.planes[0];
  for (const xplane::Line& line : plane.lines) {
    if (line.name != "Launch Stats") continue;
    ASSERT_TRUE(ForEachEvent(line, [&](const xplane::Event& event) {
                  ForEachStat(plane, event, [&](const xplane::Stat& stat) {
                    stats[std::string(plane.NameOf(stat))] = *stat.Number();
                  }).IgnoreError();
                }).ok());
  }
  EXPECT_EQ(stats["max_launch_time_us"], 3);
  EXPECT_EQ(stats["avg_launch_time_us"], 2);
  EXPECT_EQ(stats["num_launches"], 3);
}

// Both processes call their launch number 1.
TEST(DeriveLines, LaunchesOfProcessesAreToldApart) {
  xplane::PlaneBuilder host("/host:CPU [a]"), other("/host:CPU [b]"), gpu("/device:GPU:0 [a]", 1);
  host.BeginLine(1, "main", 0);
  for (std::int64_t step = 0; step < 2; ++step) {
    host.AddEvent(host.EventId("train"), step * 10 * kMs, 9 * kMs);
    host.AddEventStat(host.StatId("step_num"), step + 7);
  }
  host.BeginLine(2, "launches", 0);
  host.AddEvent(host.EventId("cudaLaunchKernel"), kMs, kMs);
  host.AddEventStat(host.StatId("correlation_id"), std::int64_t{1});
  other.BeginLine(1, "main", 0);
  other.AddEvent(other.EventId("cudaLaunchKernel"), 15 * kMs, kMs);
  other.AddEventStat(other.StatId("correlation_id"), std::int64_t{1});
  gpu.BeginLine(13, "Stream #13(Compute)", 0);
  gpu.AddEvent(gpu.EventId("kernel"), 3 * kMs, kMs);
  gpu.AddEventStat(gpu.StatId("correlation_id"), std::int64_t{1});
  const std::string trace = host.Encode() + other.Encode() + gpu.Encode();
  const std::string derived = *DeriveLines(*xplane::Space::Read(trace));
  EXPECT_THAT(Lines(derived, "Steps"), ElementsAre("train 7 3-4"));
}

TEST(DeriveLines, TellsFromWhichPlaneEachOneIsDerived) {
  std::string trace;
  for (const std::string_view op : {"a", "", "b"}) {
    xplane::PlaneBuilder gpu("/device:GPU:0", 1);
    gpu.BeginLine(13, "Stream #13(Compute)", 0);
    gpu.AddEvent(gpu.EventId("kernel"), kMs, kMs);
    if (!op.empty()) gpu.AddEventStat(gpu.StatId("hlo_op"), op);
    trace += gpu.Encode();
  }
  std::vector<std::size_t> sources;
  const std::string derived = *DeriveLines(*xplane::Space::Read(trace), &sources);
  EXPECT_EQ(xplane::Space::Read(derived)->planes.size(), 2u);
  EXPECT_THAT(sources, ElementsAre(0, 2));
}

TEST(DeriveLines, LeavesAloneWhatHasSuchLines) {
  EXPECT_THAT(*DeriveLines(*xplane::Space::Read(Trace("XLA Ops"))), IsEmpty());
}

TEST(DeriveLines, TellsNothingOfStreamsThatTellNothing) {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(13, "Stream #13(Compute)", 0);
  gpu.AddEvent(gpu.EventId("kernel"), 0, 100);
  EXPECT_THAT(*DeriveLines(*xplane::Space::Read(gpu.Encode())), IsEmpty());
}

TEST(DeriveLines, TwoStreamsAtOnceStillNest) {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  for (int stream = 0; stream < 2; ++stream) {
    gpu.BeginLine(13 + stream, "Stream", 0);
    for (int i = 0; i < 50; ++i) {
      gpu.AddEvent(gpu.EventId("kernel"), i * 100 + stream * 30, 80);
      gpu.AddEventStat(gpu.StatId("hlo_op"), std::string_view(stream == 0 ? "a" : "b"));
    }
  }
  const std::string derived = *DeriveLines(*xplane::Space::Read(gpu.Encode()));
  for (const std::string& line : Lines(derived, "XLA Ops")) EXPECT_FALSE(line.ends_with("!"));
}

}  // namespace
}  // namespace strobe::analysis
