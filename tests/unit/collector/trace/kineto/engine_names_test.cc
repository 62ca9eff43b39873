#include "collector/trace/kineto/engine_names.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

// "kind #step name=value ...", or "-".
std::string EngineTextOf(std::string_view name) {
  const std::optional<EngineName> engine = EngineNameOf(name);
  if (!engine) return "-";
  std::string text(engine->kind());
  if (engine->step()) text += StrCat(" #", *engine->step());
  for (const EngineStat& stat : engine->stats()) text += StrCat(" ", stat.name, "=", stat.value);
  return text;
}

TEST(EngineNameOf, ReadsIterationsAndPlanning) {
  EXPECT_EQ(EngineTextOf("engine#812 p=1/468 d=9/9 r=10 w=3"),
            "engine #812 prefill_requests=1 prefill_tokens=468 decode_requests=9 decode_tokens=9 "
            "running=10 waiting=3");
  EXPECT_EQ(EngineTextOf("engine#0 p=0/0 d=2/2"),
            "engine #0 prefill_requests=0 prefill_tokens=0 decode_requests=2 decode_tokens=2");
  EXPECT_EQ(EngineTextOf("engine.schedule r=10 w=0"), "engine.schedule running=10 waiting=0");
}

// As vLLM 0.32 and 0.11 write them: GPUModelRunner and Worker.annotate_profile.
TEST(EngineNameOf, ReadsVllmsAnnotations) {
  EXPECT_EQ(EngineTextOf("execute_context_3(512)_generation_2(50)"),
            "execute_model prefill_requests=3 prefill_tokens=512 decode_requests=2 "
            "decode_tokens=50");
  EXPECT_EQ(EngineTextOf("execute_77_context_3(sq128sk256sqsq1sqsk1)_generation_2(sq1sk300)"),
            "execute_model prefill_requests=3 decode_requests=2")
      << "details are no sums";
}

// As SGLang's ModelRunner.forward writes them.
TEST(EngineNameOf, ReadsSglangsSteps) {
  EXPECT_EQ(EngineTextOf("step[DECODE bs=8]"), "step[DECODE] decode_requests=8");
  EXPECT_EQ(EngineTextOf("step[EXTEND bs=2 toks=512]"),
            "step[EXTEND] prefill_requests=2 prefill_tokens=512");
  EXPECT_EQ(EngineTextOf("step[MIXED bs=5 toks=90]"),
            "step[MIXED] batch_requests=5 batch_tokens=90");
}

TEST(EngineNameOf, OtherNamesStayAsTheyAre) {
  for (const char* name : {"",
                           "engine",
                           "engine dummy",
                           "engine#",
                           "engine#x p=1/2",
                           "engine#1 p=1 d=2/2",
                           "engine#1 p=1/2 d=3/4 more",
                           "engine#-1",
                           "engine#99999999999999999999",
                           "engine.schedule r=",
                           "engine_start",
                           "execute_model",
                           "execute_context_3(512)",
                           "execute_context_3(512)_generation_2(50",
                           "execute_context_(1)_generation_2(3)",
                           "execute_5context_3(1)_generation_2(3)",
                           "step[IDLE bs=0]",
                           "step[DECODE bs=8",
                           "step[DECODE bs=]",
                           "step[DECODE]",
                           "step 12",
                           "aten::mm"})
    EXPECT_EQ(EngineTextOf(name), "-") << name;
}

}  // namespace
}  // namespace strobe::kineto
