#include "collector/trace/kineto/groups.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/fakes/json_trace.h"

namespace strobe::kineto {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Json = nlohmann::json;

// How tools that merge files of several ranks rename their processes and devices.
using Rename = std::function<Json(int rank, int pid)>;
const std::vector<Rename>& Renames() {
  static const std::vector<Rename> all = {
      [](int rank, int pid) { return Json(StrCat("[TP0", rank, "] ", pid)); },
      [](int rank, int pid) {
        return Json(StrCat("[TP00-DP0", rank, "-PP00-EP0", rank, "] ", pid));
      },
      [](int rank, int pid) { return Json(StrCat("rank", rank, "_", pid)); },
      [](int rank, int pid) { return Json(StrCat(pid, "@rank", rank)); },
      [](int rank, int pid) { return Json(rank * 10000 + pid); }};
  return all;
}

struct MergedRun {
  std::vector<Json> events{};
  std::vector<std::string> arrows{};
};

// Ranks that count the same correlation ids, each with two devices.
MergedRun Merge(int ranks, int launches, const Rename& rename, std::mt19937& random) {
  MergedRun run;
  for (int rank = 0; rank < ranks; ++rank) {
    const Json host = rename(rank, 900);
    double at = 5e9 + static_cast<double>(random() % 50);
    for (int i = 0; i < launches; ++i) {
      const int id = 10 + i, device = i % 2;
      const std::string launch = StrCat("launch ", rank, "/", id),
                        work = StrCat("work ", rank, "/", id);
      const double begin = at + 30 + static_cast<double>(random() % 900);
      run.events.push_back(
          SpanEvent("cuda_runtime", launch, host, 900, at, 20, {{"correlation", id}}));
      run.events.push_back(FlowEvent("s", id, host, 900, at));
      run.events.push_back(SpanEvent("kernel", work, rename(rank, device), 7, begin, 5,
                                     {{"device", device}, {"stream", 7}, {"correlation", id}}));
      run.events.push_back(FlowEvent("f", id, rename(rank, device), 7, begin));
      run.arrows.push_back(StrCat(launch, " > ", work));
      at += 1000;
    }
  }
  std::sort(run.arrows.begin(), run.arrows.end());
  return run;
}

TEST(Groups, LaunchesOfMergedRanksLeadToTheirOwnKernels) {
  std::mt19937 random(3);
  for (const Rename& rename : Renames()) {
    for (const int ranks : {1, 2, 5}) {
      MergedRun run = Merge(ranks, 40, rename, random);
      for (int i = 0; i < 2; ++i) {
        const JsonTrace trace = JsonTrace::Of(run.events);
        EXPECT_EQ(trace.Arrows(), run.arrows) << run.events.front().dump();
        EXPECT_EQ(trace.ExportedArrows(), run.arrows);
        EXPECT_THAT(trace.space.warnings, IsEmpty());
        std::shuffle(run.events.begin(), run.events.end(), random);
      }
    }
  }
}

TEST(Groups, PlanesOfMergedRanksAreNamedByThem) {
  std::mt19937 random(3);
  EXPECT_THAT(JsonTrace::Of(Merge(2, 4, Renames()[0], random).events).PlaneNames(),
              ElementsAre("/device:GPU:0 [TP00]", "/device:GPU:0 [TP01]", "/device:GPU:1 [TP00]",
                          "/device:GPU:1 [TP01]", "/host:CPU [TP00]", "/host:CPU [TP01]"));
  EXPECT_THAT(JsonTrace::Of(Merge(1, 4, Renames()[4], random).events).PlaneNames(),
              ElementsAre("/device:GPU:0", "/device:GPU:1", "/host:CPU"));
}

// Each device idles until its next launch: none of that time is another rank's.
TEST(Groups, HostBoundTimeOfMergedRanksIsThatOfEach) {
  for (const int ranks : {1, 2}) {
    std::vector<Json> events;
    for (int rank = 0; rank < ranks; ++rank) {
      // The second rank is ten milliseconds ahead with the same ids.
      const double zero = 5e9 + 100'000 - 10'000 * rank;
      for (int i = 0; i < 10; ++i) {
        const Json host = Renames()[0](rank, 900), gpu = Renames()[0](rank, 0);
        events.push_back(SpanEvent("cuda_runtime", "launch", host, 900, zero + 1000 * i, 20,
                                   {{"correlation", 10 + i}}));
        events.push_back(SpanEvent("kernel", "gemm", gpu, 7, zero + 1000 * i + 100, 300,
                                   {{"device", 0}, {"stream", 7}, {"correlation", 10 + i}}));
      }
    }
    const digest::Digest digest = JsonTrace::Of(events).MakeDigest();
    EXPECT_TRUE(digest.knows.launches);
    // Nine gaps of 700 us between the kernels.
    EXPECT_EQ(digest.host_time.host_bound_ns, 9 * 700'000) << ranks;
  }
}

// Times tell which process a device belongs to if names do not: work follows its launch.
TEST(Groups, TimesTellWhoLaunchedWork) {
  std::vector<Json> events;
  std::vector<std::string> arrows;
  const int hosts[] = {40, 41}, devices[] = {7, 3};  // Numbers that tell nothing.
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 50; ++i) {
      // One rank counts from the other end, as different programs do.
      const int id = rank == 0 ? 100 + i : 149 - i;
      events.push_back(SpanEvent("cuda_runtime", StrCat("launch ", rank, id), hosts[rank], 1,
                                 5e9 + 1000 * i, 20, {{"correlation", id}}));
      events.push_back(SpanEvent("kernel", StrCat("work ", rank, id), devices[rank], 7,
                                 5e9 + 1000 * i + 50, 300,
                                 {{"device", 0}, {"stream", 7}, {"correlation", id}}));
      arrows.push_back(StrCat("launch ", rank, id, " > work ", rank, id));
    }
  }
  std::sort(arrows.begin(), arrows.end());
  EXPECT_EQ(JsonTrace::Of(events).Arrows(), arrows);
}

TEST(Groups, WhatCannotBeToldApartGetsNoArrowsAndAReason) {
  std::vector<Json> events;
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 20; ++i) {
      events.push_back(SpanEvent("cuda_runtime", "launch", 40 + rank, 1, 5e9 + 1000 * i + rank, 20,
                                 {{"correlation", 1 + i}}));
      events.push_back(SpanEvent("kernel", "work", rank == 0 ? 7 : 3, 7, 5e9 + 1000 * i + 50 + rank,
                                 300, {{"device", 0}, {"stream", 7}, {"correlation", 1 + i}}));
    }
  }
  const JsonTrace trace = JsonTrace::Of(events);
  EXPECT_THAT(trace.Arrows(), IsEmpty());
  EXPECT_THAT(trace.space.warnings,
              ElementsAre(HasSubstr("2 devices cannot be joined with launches")));
  EXPECT_FALSE(trace.MakeDigest().knows.launches);
}

TEST(Groups, ProcessesWithIdsOfTheirOwnNeedNoNames) {
  std::vector<Json> events;
  for (int rank = 0; rank < 2; ++rank) {
    const int id = 1 + rank;
    events.push_back(SpanEvent("cuda_runtime", StrCat("launch ", rank), 40 + rank, 1, 5e9, 20,
                               {{"correlation", id}}));
    events.push_back(SpanEvent("kernel", StrCat("work ", rank), 0, 7, 5e9 + 50 + 400 * rank, 300,
                               {{"device", 0}, {"stream", 7}, {"correlation", id}}));
  }
  const JsonTrace trace = JsonTrace::Of(events);
  EXPECT_THAT(trace.Arrows(), ElementsAre("launch 0 > work 0", "launch 1 > work 1"));
  EXPECT_THAT(trace.PlaneNames(), ElementsAre("/device:GPU:0", "/host:CPU"));
}

TEST(Groups, ForwardAndBackwardOfMergedRanksStayInTheirRank) {
  std::vector<Json> events;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string pid = StrCat("[TP0", rank, "] 900");
    events.push_back(SpanEvent("cpu_op", StrCat("forward ", rank), pid, 1, 5e9 + rank, 20));
    events.push_back(FlowEvent("s", 3, pid, 1, 5e9 + rank, "fwdbwd"));
    events.push_back(SpanEvent("cpu_op", StrCat("backward ", rank), pid, 2, 5e9 + 100 - rank, 20));
    events.push_back(FlowEvent("f", 3, pid, 2, 5e9 + 100 - rank, "fwdbwd"));
  }
  EXPECT_THAT(JsonTrace::Of(events).Arrows(),
              ElementsAre("forward 0 > backward 0", "forward 1 > backward 1"));
}

Json Task(std::string_view type, std::string_view name, int pid, int tid, double ts, double dur) {
  Json event = SpanEvent("", name, pid, tid, ts, dur, {{"Task Type", type}});
  event.erase("cat");
  return event;
}

// As an Ascend NPU's profiler writes them, with metadata and without.
TEST(Groups, TasksOfAscendAreTheWorkOfADevice) {
  std::vector<Json> events = {SpanEvent("cpu_op", "aten::mm", 1, 1, 0, 100),
                              Task("AI_CORE", "MatMul", 2, 3, 10, 20),
                              Task("EVENT_WAIT", "EVENT_WAIT", 2, 3, 30, 30),
                              Task("MEMCPY_ASYNC", "MEMCPY_ASYNC", 2, 4, 60, 10)};
  Json collective = SpanEvent("", "hcom_allReduce__123_0", 5, 9, 80, 20);
  collective.erase("cat");
  events.push_back(collective);
  for (const Json& label : {Json(), Json({{"ph", "M"},
                                          {"name", "process_labels"},
                                          {"pid", 2},
                                          {"tid", 0},
                                          {"args", {{"labels", "NPU"}}}})}) {
    if (!label.is_null()) events.push_back(label);
    const digest::Digest digest = JsonTrace::Of(events).MakeDigest();
    ASSERT_EQ(digest.devices.size(), 1u);
    EXPECT_EQ(digest.devices[0].name, "/device:NPU:2");
    EXPECT_EQ(digest.time.compute_ns, 20'000) << "a wait is no work, and neither is the host's";
    EXPECT_EQ(digest.time.exposed_copies_ns, 10'000);
    EXPECT_EQ(digest.time.exposed_communication_ns, 20'000);
    EXPECT_FALSE(digest.knows.host_device);
  }
}

// A device of a kind that nobody here has seen, which the file itself calls one.
TEST(Groups, LabelsAndPropertiesTellDevices) {
  const std::vector<Json> events = {
      SpanEvent("cpu_op", "aten::mm", 60, 60, 0, 100),
      SpanEvent("abc_events", "fc", 9, 801, 10, 60, {{"stream", 108}}),
      SpanEvent("abc_events", "H2D", 9, 801, 80, 10, {{"stream", 108}})};
  const Json label = {{"ph", "M"},
                      {"name", "process_labels"},
                      {"pid", 9},
                      {"tid", 0},
                      {"args", {{"labels", "ABC 9"}}}};
  std::vector<Json> labelled = events;
  labelled.push_back(label);
  const JsonTrace by_label = JsonTrace::Of(labelled);
  EXPECT_THAT(by_label.PlaneNames(), ElementsAre("/device:ABC:9", "/host:CPU"));
  // The members of the file may come in any order.
  for (const char* order :
       {R"({"deviceProperties":[{"id":9}],"traceEvents":)", R"({"traceEvents":)"}) {
    const bool behind = std::string_view(order).find("id") == std::string_view::npos;
    const JsonTrace trace(
        StrCat(order, Json(events).dump(), behind ? R"(,"deviceProperties":[{"id":9}]})" : "}"));
    EXPECT_THAT(trace.PlaneNames(), ElementsAre("/device:GPU:9", "/host:CPU"));
    const digest::Digest digest = trace.MakeDigest();
    EXPECT_EQ(digest.time.compute_ns, 60'000);
    EXPECT_EQ(digest.time.exposed_copies_ns, 10'000);
  }
  // Without either, it is not known that this is one.
  EXPECT_THAT(JsonTrace::Of(events).PlaneNames(), ElementsAre("/host:CPU"));
}

// Arrows of launches lead to devices that are found late, too.
TEST(Groups, WorkWithoutCorrelationIdsHasTheArrowsOfTheFile) {
  const Json label = {{"ph", "M"},
                      {"name", "process_labels"},
                      {"pid", 9},
                      {"tid", 0},
                      {"args", {{"labels", "ABC 9"}}}};
  std::vector<Json> events = {
      label, SpanEvent("abc_runtime", "launch", 60, 60, 0, 10, {{"correlation", 4}}),
      FlowEvent("s", 4, 60, 60, 0),
      SpanEvent("abc_events", "fc", 9, 801, 10, 60, {{"stream", 108}}),
      FlowEvent("f", 4, 9, 801, 10)};
  std::sort(events.begin(), events.end());
  do {
    EXPECT_THAT(JsonTrace::Of(events).Arrows(), ElementsAre("launch > fc"));
  } while (std::next_permutation(events.begin(), events.end()));
}

// Programs that trace themselves have arguments of any name.
TEST(Groups, AHostsProcessIsNoDevice) {
  const Json label = {{"ph", "M"},
                      {"name", "process_labels"},
                      {"pid", 1},
                      {"tid", 0},
                      {"args", {{"labels", "GPU 1"}}}};
  EXPECT_THAT(JsonTrace::Of({label, SpanEvent("cpu_op", "aten::mm", 1, 1, 0, 100),
                             SpanEvent("mine", "copy", 1, 1, 10, 5, {{"device", 1}})})
                  .PlaneNames(),
              ElementsAre("/host:CPU"));
}

}  // namespace
}  // namespace strobe::kineto
