#include "sidecar/source/kineto/kineto_order.h"

#include <gmock/gmock.h>

#include <map>

#include "common/base/strings.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

v1::CapturePlan KinetoPlan() {
  v1::CapturePlan plan;
  plan.set_capture_id("uid-1");
  plan.set_duration_ns(Nanos(500ms).count());
  plan.set_guard_ns(Nanos(5ms).count());
  plan.mutable_tracers()->set_host(2);
  return plan;
}

std::map<std::string, std::string> KinetoLines(const KinetoOrder& order, WallTime start) {
  std::map<std::string, std::string> lines;
  for (const std::string& line : Split(KinetoText(order, start), '\n')) {
    const std::vector<std::string> parts = Split(line, '=');
    if (line.empty()) continue;
    EXPECT_EQ(parts.size(), 2u) << "Kineto wants exactly one = in a line: " << line;
    lines[parts.front()] = parts.back();
  }
  return lines;
}

TEST(KinetoText, IsWhatKinetoReads) {
  const KinetoOrder order = MakeKinetoOrder(KinetoPlan(), MonoTime{}, 2s, "/var/strobe/k/a.json");
  const auto lines = KinetoLines(order, FromUnixNanos(1'790'857'026'123'999'999));
  EXPECT_EQ(lines.at("ACTIVITIES_LOG_FILE"), "/var/strobe/k/a.json");
  EXPECT_EQ(lines.at("REQUEST_TRACE_ID"), "uid-1");
  EXPECT_EQ(lines.at("ACTIVITY_TYPES"), "cpu_op,user_annotation");
  EXPECT_EQ(lines.at("PROFILE_REPORT_INPUT_SHAPES"), "false");
  EXPECT_EQ(lines.at("PROFILE_WITH_STACK"), "false");
  EXPECT_EQ(lines.at("PROFILE_START_TIME"), "1790857026123") << "not later than the start";
  EXPECT_EQ(lines.at("ACTIVITIES_DURATION_MSECS"), "511") << "not ended before the end";
  EXPECT_FALSE(lines.contains("PROFILE_MEMORY")) << "it makes a thread of the trainer spin";
  EXPECT_FALSE(lines.contains("ACTIVITIES_ITERATIONS")) << "it cannot be taken back";
}

// Kineto's default of 5 s is the time in which a program that ends crashes.
TEST(KinetoOrder, WarmsUpForGpusOnlyAndNeverByDefault) {
  v1::CapturePlan plan = KinetoPlan();
  const KinetoOrder cpu = MakeKinetoOrder(plan, MonoTime{}, 2s, "a.json");
  EXPECT_EQ(KinetoLines(cpu, {}).at("ACTIVITIES_WARMUP_PERIOD_SECS"), "0");
  EXPECT_EQ(cpu.Ahead(), 1250ms);
  plan.mutable_tracers()->set_device(1);
  const KinetoOrder gpu = MakeKinetoOrder(plan, MonoTime{}, 2s, "a.json");
  EXPECT_EQ(KinetoLines(gpu, {}).at("ACTIVITIES_WARMUP_PERIOD_SECS"), "1");
  EXPECT_EQ(gpu.Ahead(), 2250ms);
  EXPECT_THAT(gpu.activities, HasSubstr("kernel"));
}

TEST(KinetoOrder, AsksForWhatTheRequestSays) {
  v1::CapturePlan plan = KinetoPlan();
  plan.mutable_tracers()->set_host(0);
  EXPECT_EQ(MakeKinetoOrder(plan, {}, 2s, "a.json").activities, "user_annotation")
      << "an empty list would mean everything";
  plan.mutable_tracers()->set_device(1);
  EXPECT_THAT(MakeKinetoOrder(plan, {}, 2s, "a.json").activities, Not(HasSubstr("cpu_op")));
  plan.mutable_tracers()->set_python(1);
  const KinetoOrder order = MakeKinetoOrder(plan, {}, 2s, "a.json");
  EXPECT_THAT(order.activities, HasSubstr("python_function"));
  EXPECT_EQ(KinetoLines(order, {}).at("PROFILE_WITH_STACK"), "true");
}

TEST(KinetoOrder, KernelsAreAskedForWithTheFewestActivities) {
  v1::CapturePlan plan = KinetoPlan();
  plan.mutable_tracers()->set_device(2);
  EXPECT_EQ(MakeKinetoOrder(plan, {}, 2s, "a.json").activities, "kernel,gpu_memcpy,gpu_memset");
  plan.mutable_tracers()->set_device(3);
  EXPECT_THAT(MakeKinetoOrder(plan, {}, 2s, "a.json").activities, HasSubstr("cuda_runtime"));
  EXPECT_THAT(MakeKinetoOrder(plan, {}, 2s, "a.json").activities, HasSubstr("cpu_op"));
}

TEST(KinetoOrder, HasTheOptionsOfPyTorch) {
  v1::CapturePlan flops = KinetoPlan(), modules = flops, memory = flops;
  flops.mutable_tracers()->set_flops(true);
  const auto shaped = KinetoLines(MakeKinetoOrder(flops, {}, 2s, "a.json"), {});
  EXPECT_EQ(shaped.at("PROFILE_REPORT_INPUT_SHAPES"), "true");
  EXPECT_EQ(shaped.at("PROFILE_WITH_STACK"), "false");
  modules.mutable_tracers()->set_modules(true);
  const KinetoOrder stacked = MakeKinetoOrder(modules, {}, 2s, "a.json");
  EXPECT_THAT(stacked.activities, HasSubstr("python_function"));
  EXPECT_EQ(KinetoLines(stacked, {}).at("PROFILE_WITH_STACK"), "true");
  memory.mutable_tracers()->set_memory(true);
  const KinetoOrder counted = MakeKinetoOrder(memory, {}, 2s, "a.json");
  EXPECT_THAT(counted.activities, HasSubstr("cpu_instant_event"));
  EXPECT_EQ(KinetoLines(counted, {}).at("PROFILE_PROFILE_MEMORY"), "true");
}

TEST(KinetoOrder, IsNeverLongerThanAllowed) {
  v1::CapturePlan plan = KinetoPlan();
  plan.set_duration_ns(Nanos(1h).count());
  const KinetoOrder order = MakeKinetoOrder(plan, MonoTime(10s), 2s, "a.json");
  EXPECT_EQ(order.duration, 2010ms) << "with the guard on both sides";
  EXPECT_EQ(order.end(), MonoTime(12010ms));
}

TEST(KinetoTracePath, IsAsKinetoMakesIt) {
  EXPECT_EQ(KinetoTracePath({.path = "/d/a.json"}, 42), "/d/a_42.json");
}

TEST(WhyNoKinetoDirectory, NamesWhatKinetoCannotTake) {
  EXPECT_EQ(WhyNoKinetoDirectory("/var/strobe/kineto"), "");
  for (const char* bad : {"", "var/strobe", "/a/../b", "/a=b", "/a#b", "/a\nb", "/x.json/y",
                          "/this/directory/has/a/name/that/is/far/too/long/for/sockets"})
    EXPECT_NE(WhyNoKinetoDirectory(bad), "") << bad;
}

}  // namespace
}  // namespace strobe::source
