#include "collector/trace/kineto/device_work.h"

#include <gmock/gmock.h>

#include "tests/fakes/json_trace.h"

namespace strobe::kineto {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using Json = nlohmann::json;

// Percents of the recorded time.
struct Percents {
  double compute = 0, copies = 0, idle = 0;
};
Percents PercentsOf(const digest::Digest& digest) {
  const auto span = static_cast<double>(digest.time.span_ns) / 100;
  return {static_cast<double>(digest.time.compute_ns) / span,
          static_cast<double>(digest.time.exposed_copies_ns) / span,
          static_cast<double>(digest.time.idle_ns) / span};
}

// A step of 2 ms in which each piece of work takes 5 %.
std::vector<Json> StepWith(std::string_view category, const std::vector<std::string>& work) {
  std::vector<Json> events = {SpanEvent("user_annotation", "ProfilerStep#1", 50, 1, 5e9, 2000)};
  int id = 0;
  for (const std::string& name : work) {
    ++id;
    events.push_back(SpanEvent("cuda_runtime", "hipMemcpyWithStream", 50, 1, 5e9 + 2 * id, 1,
                               {{"correlation", id}}));
    events.push_back(SpanEvent(
        category, name, 2, 0, 5e9 + 100 * id, 100,
        {{"device", 2}, {"stream", 0}, {"correlation", id}, {"kind", "Dispatch Kernel"}}));
  }
  return events;
}

TEST(DeviceWork, CopiesAndFillsOfAmdAreNotCompute) {
  const JsonTrace trace = JsonTrace::Of(StepWith(
      "kernel", {"Cijk_Ailk_Bljk_gemm", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST",
                 "MEMORY_COPY_DEVICE_TO_DEVICE", "__amd_rocclr_copyBuffer.kd",
                 "__amd_rocclr_copyBufferRectAligned", "__amd_rocclr_fillBufferAligned",
                 "CopyHostToDevice", "CopyDeviceToDevice", "FillBuffer"}));
  const Percents percents = PercentsOf(trace.MakeDigest());
  EXPECT_EQ(percents.compute, 5);
  EXPECT_EQ(percents.copies, 45);
  EXPECT_THAT(trace.LineNames(), Contains("/device:GPU:2 | Stream #0(Compute,MemcpyH2D,MemcpyD2H,"
                                          "MemcpyD2D,Memset)"));
}

// Their categories say it, whatever their names are.
TEST(DeviceWork, CategoriesOfCopiesCountInEverySpelling) {
  for (const std::string_view category :
       {"gpu_memcpy", "gpu_memset", "Memcpy", "mlu_memcpy", "MLU_MEMSET", "GCU_MEMCPY"}) {
    const Percents percents =
        PercentsOf(JsonTrace::Of(StepWith(category, {"anything"})).MakeDigest());
    EXPECT_EQ(percents.compute, 0) << category;
    EXPECT_EQ(percents.copies, 5) << category;
  }
}

TEST(DeviceWork, KernelsThatCopyAreCompute) {
  const Percents percents = PercentsOf(
      JsonTrace::Of(
          StepWith("kernel", {"void at::native::elementwise_kernel<direct_copy_kernel_cuda>()",
                              "triton_poi_fused_copy_0", "CatArrayBatchedCopy"}))
          .MakeDigest());
  EXPECT_EQ(percents.compute, 15);
  EXPECT_EQ(percents.copies, 0);
}

TEST(DeviceWork, CopiesTellTheirKindsAndSize) {
  std::vector<Json> events =
      StepWith("gpu_memcpy", {"CopyHostToDevice", "Memcpy DtoH (Device -> Pinned)"});
  for (Json& event : events) {
    if (event["cat"] == "gpu_memcpy") event["args"]["bytes"] = 64;
  }
  const JsonTrace trace = JsonTrace::Of(events);
  std::vector<std::string> details;
  const xplane::Plane* plane = trace.space.Find("/device:GPU:2");
  ASSERT_NE(plane, nullptr);
  for (const xplane::Line& line : plane->lines) {
    ASSERT_TRUE(ForEachEvent(line, [&](const xplane::Event& event) {
                  (void)ForEachStat(*plane, event, [&](const xplane::Stat& stat) {
                    if (plane->NameOf(stat) == "memcpy_details")
                      details.emplace_back(std::get<std::string_view>(stat.value));
                  });
                }).ok());
  }
  EXPECT_THAT(details, ElementsAre("kind_src:host kind_dst:device size:64",
                                   "kind_src:device kind_dst:pinned size:64"));
}

// Meta's accelerator. Its work has a category of its own.
std::vector<Json> Mtia() {
  return {SpanEvent("user_annotation", "ProfilerStep#1", 60, 60, 5e9, 10000),
          SpanEvent("cpu_op", "aten::mm", 60, 60, 5e9 + 10, 400),
          SpanEvent("mtia_runtime", "runFunction - job_prep_and_submit_for_execution", 60, 60,
                    5e9 + 50, 100, {{"correlation", 5}}),
          SpanEvent("mtia_ccp_events", "fc-dtype_Float", 9, 801, 5e9 + 1000, 6000,
                    {{"stream", 108}, {"sqid", 1}, {"correlation", 5}}),
          SpanEvent("mtia_ccp_events", "dma_request", 9, 801, 5e9 + 7500, 1000,
                    {{"direction", "DEVICE_TO_HOST"}, {"size", 16}, {"sqid", 1}})};
}
Json MtiaFile(const std::vector<Json>& events) {
  return {{"schemaVersion", 1},
          {"deviceProperties", {{{"id", 9}, {"name", "ARTEMIS"}}}},
          {"distributedInfo", {{"backend", "mtia:hccl"}, {"rank", 0}, {"world_size", 1}}},
          {"traceEvents", events}};
}

TEST(DeviceWork, MtiasWorkIsADevices) {
  std::vector<Json> events = Mtia();
  std::sort(events.begin(), events.end());
  do {
    const JsonTrace trace{MtiaFile(events)};
    const digest::Digest digest = trace.MakeDigest();
    const Percents percents = PercentsOf(digest);
    ASSERT_EQ(percents.compute, 60);
    ASSERT_EQ(percents.copies, 10);
    ASSERT_EQ(percents.idle, 30);
    ASSERT_FALSE(digest.knows.host_device);
    ASSERT_EQ(digest.devices[0].name, "/device:MTIA:9");
    ASSERT_THAT(trace.Arrows(),
                ElementsAre("runFunction - job_prep_and_submit_for_execution > fc-dtype_Float"));
  } while (std::next_permutation(events.begin(), events.end()));
}

// One sign that there is a device is enough: what the host did is not shown as all of the job.
TEST(DeviceWork, TheHostsShareIsNeverTheJobsIfThereIsADevice) {
  const Json op = SpanEvent("cpu_op", "aten::mm", 60, 60, 0, 400);
  const auto with = [&](std::vector<Json> events, const Json& members = Json::object()) {
    events.push_back(op);
    Json file = members;
    file["traceEvents"] = events;
    return JsonTrace(file).MakeDigest();
  };
  const auto labels = [](std::string_view text) {
    return Json{{"ph", "M"},
                {"name", "process_labels"},
                {"pid", 9},
                {"tid", 0},
                {"args", {{"labels", text}}}};
  };
  const std::vector<digest::Digest> untold = {
      with({}, {{"deviceProperties", {{{"id", 9}, {"name", "ARTEMIS"}}}}}),
      with({labels("HPU 0")}),
      with({labels("MTIA 3")}),
      with({SpanEvent("hpu_op", "gemm", 60, 60, 500, 5)}),
      with({SpanEvent("xpu_runtime", "urEnqueueKernelLaunch", 60, 60, 500, 5,
                      {{"correlation", 3}})}),
      with({}, {{"distributedInfo", {{"backend", "nccl"}, {"rank", 0}}}})};
  for (std::size_t i = 0; i < untold.size(); ++i) {
    EXPECT_FALSE(untold[i].knows.device) << i;
    EXPECT_FALSE(untold[i].knows.host_device) << i;
    EXPECT_TRUE(untold[i].knows.device_untold) << i;
  }
  const std::vector<digest::Digest> hosts = {
      with({}), with({labels("CPU"), labels("GPU 0")}),
      with({}, {{"deviceProperties", Json::array()}}),
      with({}, {{"distributedInfo", {{"backend", "gloo"}, {"rank", 0}}}})};
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    EXPECT_TRUE(hosts[i].knows.host_device) << i;
    EXPECT_FALSE(hosts[i].knows.device_untold) << i;
  }
}

}  // namespace
}  // namespace strobe::kineto
