#include "cli/base/stats_json.h"

#include <gmock/gmock.h>

namespace strobe::cli {
namespace {

TEST(StatsToJson, KeepsAllFieldsAndTheOrderOfKinds) {
  const analysis::PlaneStats stats{
      .plane = "/device:GPU:0",
      .events = 3,
      .begin_ps = -5,
      .end_ps = 70,
      .kinds = {{"gemm", 2, 60, 50, 20, 40}, {"copy", 1, 10, 10, 10, 10}}};
  EXPECT_EQ(StatsToJson(stats).dump(),
            R"({"name":"/device:GPU:0","events":3,"beginPs":-5,"endPs":70,"kinds":[)"
            R"({"name":"gemm","count":2,"totalPs":60,"selfPs":50,"minPs":20,"maxPs":40},)"
            R"({"name":"copy","count":1,"totalPs":10,"selfPs":10,"minPs":10,"maxPs":10}]})");
}

TEST(StatsToJson, APlaneWithoutEventsHasAnEmptyList) {
  EXPECT_EQ(StatsToJson({.plane = "p"})["kinds"].dump(), "[]");
}

}  // namespace
}  // namespace strobe::cli
