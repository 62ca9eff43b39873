#include "viewer/answers/kinds.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/viewer/made_run.h"

namespace strobe::viewer {
namespace {

using nlohmann::json;

void AddAll(xplane::PlaneBuilder& plane, std::initializer_list<std::string_view> names) {
  std::int64_t at_ps = 0;
  for (const std::string_view name : names) {
    plane.AddEvent(plane.EventId(name), at_ps, 500);
    at_ps += 1000;
  }
}

TEST(KindsOf, TellsWorkOfDevicesAndWhatTheHostWaitsFor) {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddAll(gpu, {"gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
               "Memcpy HtoD (Pinned -> Device)"});
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "python", 0);
  AddAll(host, {"aten::mm", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"});
  const LoadedRun run = MadeRun({gpu.Encode() + host.Encode()});
  const json kinds = json::parse(KindsOf(run));
  EXPECT_EQ(kinds["rows"], json::array({RowNamed(run, "Stream #7(Compute)")}));
  EXPECT_EQ(kinds["device"],
            (json{{"communication", {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"}},
                  {"copies", {"Memcpy HtoD (Pinned -> Device)"}}}));
  EXPECT_EQ(kinds["host"],
            (json{{"input", {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"}}}));
}

// The opcode tells that an instruction of HLO is a collective; modules are no work of their own.
TEST(KindsOf, ReadsOpcodesOfXla) {
  xplane::PlaneBuilder tpu("/device:TPU:0");
  tpu.BeginLine(1, "XLA Modules", 0);
  AddAll(tpu, {"jit_step(7)"});
  tpu.BeginLine(2, "XLA Ops", 0);
  AddAll(tpu, {"fusion.2", "all-reduce.3"});
  const LoadedRun run = MadeRun({tpu.Encode()});
  const json kinds = json::parse(KindsOf(run));
  EXPECT_EQ(kinds["rows"], json::array({RowNamed(run, "XLA Ops")}));
  EXPECT_EQ(kinds["device"], (json{{"communication", {"all-reduce.3"}}}));
  EXPECT_TRUE(kinds["host"].empty());
}

}  // namespace
}  // namespace strobe::viewer
