#include "viewer/answers/graph.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "collector/trace/xplane/builder.h"
#include "common/base/strings.h"
#include "tests/support/made_hlo.h"
#include "tests/unit/viewer/made_run.h"
#include "viewer/answers/details.h"

namespace strobe::viewer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A chain of `length` instructions; the first one is used by all others too.
std::string Chain(std::int64_t length) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < length; ++i) names.push_back(StrCat("op.", i));
  std::vector<MadeInstruction> instructions;
  for (std::int64_t i = 0; i < length; ++i) {
    MadeInstruction made{.name = names[static_cast<std::size_t>(i)], .opcode = "add", .id = i};
    if (i > 0) made.operands = {0, i - 1};
    instructions.push_back(made);
  }
  return MadeProto("jit_step", 1, {MadeComputation("main", 1, length - 1, instructions)});
}

std::string OpsTrace(const std::string& proto) {
  xplane::PlaneBuilder tpu("/device:TPU:0");
  tpu.BeginLine(1, "XLA Modules", 0);
  tpu.AddEvent(tpu.EventId("jit_step(7)"), 0, 1000);
  tpu.BeginLine(2, "XLA Ops", 0);
  tpu.AddEvent(tpu.EventId("%op.5 = f32[2,3]{1,0} add(%op.0, %op.4)"), 100, 50);
  tpu.AddEvent(tpu.EventId("op.6"), 2000, 50);
  tpu.BeginLine(3, "Steps", 0);
  tpu.AddEvent(tpu.EventId("1"), 0, 1000);
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(9, "worker", 0);
  host.AddEvent(host.EventId("op.3"), 0, 10);
  host.AddEventStat(host.StatId("hlo_op"), std::string_view("op.3"));
  host.AddEventStat(host.StatId("hlo_module"), std::string_view("jit_step"));
  host.AddEventStat(host.StatId("program_id"), std::uint64_t{7});
  return tpu.Encode() + host.Encode() + MadeMetadataPlane("jit_step(7)", 7, proto);
}

json DetailsOf(const LoadedRun& run, std::string_view row, std::uint32_t ordinal) {
  return json::parse(*EventDetails(run, RowNamed(run, row), 0, ordinal));
}

TEST(Graph, AnXlaOpNamesItsInstruction) {
  const LoadedRun run = MadeRun({OpsTrace(Chain(100))});
  json hlo = DetailsOf(run, "XLA Ops", 0)["hlo"];
  EXPECT_EQ(hlo["instruction"], "op.5") << "from the full name";
  EXPECT_EQ(hlo["module"], "jit_step(7)") << "which runs at the time";
  EXPECT_EQ(hlo["held"], true);
  hlo = DetailsOf(run, "worker", 0)["hlo"];
  EXPECT_EQ(hlo["instruction"], "op.3");
  EXPECT_EQ(hlo["program"], "7");
  EXPECT_FALSE(DetailsOf(run, "Steps", 0).contains("hlo"));
  EXPECT_FALSE(DetailsOf(run, "XLA Ops", 1).contains("hlo")) << "no module runs at the time";
}

TEST(Graph, ShowsWhatIsAroundAnInstruction) {
  const LoadedRun run = MadeRun({OpsTrace(Chain(100))});
  const GraphRequest request{.op = {"op.50", "jit_step", 7}, .levels = 1};
  const json graph = json::parse(*DrawGraph(run, request));
  std::vector<std::string> names;
  for (const json& node : graph["nodes"]) names.push_back(node["name"]);
  EXPECT_THAT(names, testing::UnorderedElementsAre("op.50", "op.0", "op.49", "op.51"));
  EXPECT_EQ(graph["centre"], 50);
  EXPECT_EQ(graph["instructions"], 100);
  EXPECT_EQ(graph["nodes"][0]["operands"], 2);
  EXPECT_EQ(graph["nodes"][0]["users"], 1);
  EXPECT_THAT(graph["nodes"][0]["text"], HasSubstr("%op.50 = f32[2,3]{1,0} add(%op.0, %op.49)"));
  EXPECT_THAT(graph["edges"], testing::Contains(json::array({49, 50})));
  EXPECT_THAT(graph["edges"], testing::Contains(json::array({0, 51})));
}

TEST(Graph, HugeModulesAreBounded) {
  const LoadedRun run = MadeRun({OpsTrace(Chain(200'000))});
  for (const std::uint32_t limit : {1u, 80u, 1000u}) {
    const GraphRequest request{
        .op = {"op.0", "jit_step", 7}, .levels = 10, .fan = 1000, .limit = limit};
    const std::string text = *DrawGraph(run, request);
    const json graph = json::parse(text);
    EXPECT_EQ(graph["nodes"].size(), limit);
    EXPECT_EQ(graph["nodes"][0]["users"], 199'999) << "told, though not shown";
    EXPECT_LT(text.size(), limit * 1000 + 1000);
  }
}

TEST(Graph, WithoutAnInstructionTheRootIsShown) {
  const LoadedRun run = MadeRun({OpsTrace(Chain(10))});
  EXPECT_EQ(json::parse(*DrawGraph(run, {.op = {"", "jit_step", 7}}))["centre"], 9);
}

TEST(Graph, WhatCannotBeShownSaysWhy) {
  const auto fails = [](const std::string& trace, GraphRequest request) {
    return std::string(DrawGraph(MadeRun({trace}), request).status().message());
  };
  const GraphRequest request{.op = {"op.1", "jit_step", 7}};
  EXPECT_THAT(fails(OpsTrace("\xff\xff"), request), HasSubstr("HLO of jit_step cannot be read"));
  EXPECT_THAT(fails(OpsTrace(Chain(9).substr(0, 50)), request), HasSubstr("cannot be read"));
  EXPECT_THAT(fails(OpsTrace(Chain(9)), {.op = {"no.1", "jit_step", 7}}),
              HasSubstr("has no instruction no.1"));
  EXPECT_THAT(fails(OpsTrace(Chain(9)), {.op = {"op.1", "jit_x", 8}}), HasSubstr("HLO of jit_x"));
  EXPECT_THAT(fails(OpsTrace(Chain(9)), {.worker = 4, .op = {"op.1", "jit_step", 7}}),
              HasSubstr("worker"));
}

}  // namespace
}  // namespace strobe::viewer
