#include "viewer/answers/launch_chain.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/viewer/made_run.h"
#include "viewer/answers/details.h"

namespace strobe::viewer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class ChainTrace {
 public:
  ChainTrace() { host_.BeginLine(1, "python", 0); }

  // Begins another thread.
  void Thread(std::int64_t id, std::string_view name) { host_.BeginLine(id, name, 0); }
  void Host(std::string_view name, std::string_view category, std::int64_t begin_ps,
            std::int64_t length_ps, std::uint64_t launches = 0) {
    host_.AddEvent(host_.EventId(name), begin_ps, length_ps);
    host_.AddEventStat(host_.StatId("cat"), xplane::Ref{category});
    if (launches > 0) host_.AddEventStat(host_.StatId("correlation_id"), launches);
  }
  // Makes the newest event of the host an end of an arrow.
  void Flow(std::uint64_t id, bool incoming) {
    host_.AddEventStat(host_.StatId("flow"), id << 2 | (incoming ? 1u : 2u));
  }
  void Kernel(std::string_view name, std::int64_t begin_ps, std::uint64_t launch,
              std::int64_t node = 0) {
    if (!std::exchange(has_stream_, true)) gpu_.BeginLine(7, "Stream #7(Compute)", 0);
    gpu_.AddEvent(gpu_.EventId(name), begin_ps, 10);
    gpu_.AddEventStat(gpu_.StatId("correlation_id"), launch);
    if (node != 0) gpu_.AddEventStat(gpu_.StatId("graph node id"), node);
  }
  LoadedRun Run() { return MadeRun({host_.Encode() + gpu_.Encode()}); }

 private:
  xplane::PlaneBuilder host_{"/host:CPU"}, gpu_{"/device:GPU:0"};
  bool has_stream_ = false;
};

std::vector<std::pair<std::string, std::string>> NamesOf(const std::vector<ChainLink>& links) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const ChainLink& link : links) names.emplace_back(link.what, link.event.name);
  return names;
}

// The chain of the kernel with this number on the stream.
LaunchChain ChainOfKernel(const LoadedRun& run, std::uint32_t ordinal = 0) {
  const absl::StatusOr<LaunchChain> chain =
      ChainOf(run, RowNamed(run, "Stream #7(Compute)"), 0, ordinal);
  EXPECT_TRUE(chain.ok()) << chain.status();
  return chain.ok() ? *chain : LaunchChain{};
}

TEST(ChainOf, AKernelLeadsToItsLaunchOperatorModuleAndFunctionOfPython) {
  ChainTrace trace;
  trace.Host("train.py(12): step", "python_function", 0, 1000);
  trace.Host("nn.Module: Linear_0", "python_function", 10, 900);
  trace.Host("aten::linear", "cpu_op", 20, 800);
  trace.Host("aten::addmm", "cpu_op", 30, 700);
  trace.Host("cudaLaunchKernel", "cuda_runtime", 40, 50, 1);
  trace.Kernel("gemm", 2000, 1);
  const LoadedRun run = trace.Run();  // The chain refers to it.
  const LaunchChain chain = ChainOfKernel(run);
  EXPECT_THAT(NamesOf(chain.links),
              ElementsAre(Pair("launch", "cudaLaunchKernel"), Pair("operator", "aten::addmm"),
                          Pair("operator", "aten::linear"), Pair("module", "nn.Module: Linear_0"),
                          Pair("Python", "train.py(12): step")));
  EXPECT_TRUE(chain.forward.empty());
  EXPECT_EQ(chain.graph, "");
}

TEST(ChainOf, WhatDoesNotNestWithAllOthersIsInTheChain) {
  ChainTrace trace;
  trace.Host("profiler.py(1): step", "python_function", 0, 50);
  trace.Host("ProfilerStep#1", "user_annotation", 40, 900);
  trace.Host("train.py(12): f", "python_function", 60, 100);
  trace.Host("aten::addmm", "cpu_op", 70, 80);
  trace.Host("cudaLaunchKernel", "cuda_runtime", 80, 5, 1);
  trace.Kernel("gemm", 2000, 1);
  const LoadedRun run = trace.Run();  // The chain refers to it.
  EXPECT_THAT(NamesOf(ChainOfKernel(run).links),
              ElementsAre(Pair("launch", "cudaLaunchKernel"), Pair("operator", "aten::addmm"),
                          Pair("Python", "train.py(12): f"), Pair("annotation", "ProfilerStep#1")));
}

TEST(ChainOf, AKernelOfABackwardOperatorAlsoLeadsToTheForwardOne) {
  ChainTrace trace;
  trace.Host("nn.Module: Linear_0", "python_function", 0, 100);
  trace.Host("aten::addmm", "cpu_op", 10, 50);
  trace.Flow(77, /*incoming=*/false);
  trace.Thread(2, "autograd");
  trace.Host("AddmmBackward0", "cpu_op", 500, 100);
  trace.Flow(77, /*incoming=*/true);
  trace.Host("aten::mm", "cpu_op", 510, 50);
  trace.Host("cudaLaunchKernel", "cuda_runtime", 520, 5, 1);
  trace.Kernel("gemm", 2000, 1);
  const LoadedRun run = trace.Run();  // The chain refers to it.
  const LaunchChain chain = ChainOfKernel(run);
  EXPECT_THAT(NamesOf(chain.links),
              ElementsAre(Pair("launch", "cudaLaunchKernel"), Pair("operator", "aten::mm"),
                          Pair("operator", "AddmmBackward0")));
  EXPECT_THAT(NamesOf(chain.forward), ElementsAre(Pair("forward operator", "aten::addmm"),
                                                  Pair("module", "nn.Module: Linear_0")));
}

// A capture of two calls, of which the second one is aten::relu's, and a launch of the graph.
ChainTrace WithGraph(bool tells_nodes, bool holds_capture) {
  ChainTrace trace;
  if (holds_capture) {
    trace.Host("cudaStreamBeginCapture", "cuda_runtime", 0, 5);
    trace.Host("aten::mm", "cpu_op", 10, 20);
    trace.Host("cudaLaunchKernel", "cuda_runtime", 12, 5, 101);
    trace.Host("aten::relu", "cpu_op", 40, 20);
    trace.Host("cudaLaunchKernel", "cuda_runtime", 42, 5, 102);
    trace.Host("cudaStreamEndCapture", "cuda_runtime", 80, 5);
  }
  trace.Host("replay", "user_annotation", 100, 50);
  trace.Host("cudaGraphLaunch", "cuda_runtime", 110, 20, 7);
  trace.Kernel("gemm", 200, 7, tells_nodes ? 5'000'000'001 : 0);
  trace.Kernel("relu", 220, 7, tells_nodes ? 5'000'000'002 : 0);
  return trace;
}

TEST(ChainOf, AKernelOfACudaGraphIsMappedToItsCapture) {
  const LoadedRun run = WithGraph(/*tells_nodes=*/true, /*holds_capture=*/true).Run();
  const LaunchChain second = ChainOfKernel(run, 1);
  EXPECT_THAT(NamesOf(second.links),
              ElementsAre(Pair("launch", "cudaGraphLaunch"), Pair("annotation", "replay")));
  EXPECT_THAT(NamesOf(second.captured),
              ElementsAre(Pair("capture", "cudaLaunchKernel"), Pair("operator", "aten::relu")));
  EXPECT_THAT(second.graph, HasSubstr("By the order of its nodes"));
  EXPECT_THAT(NamesOf(ChainOfKernel(run, 0).captured),
              ElementsAre(Pair("capture", "cudaLaunchKernel"), Pair("operator", "aten::mm")));
}

TEST(ChainOf, AGraphIsCalledAsItsVendorCallsIt) {
  ChainTrace trace;
  trace.Host("hipGraphLaunch", "cuda_runtime", 110, 20, 7);
  trace.Kernel("gemm", 200, 7);
  EXPECT_THAT(ChainOfKernel(trace.Run()).graph, testing::StartsWith("A HIP graph launched this"));
}

TEST(ChainOf, AKernelOfACudaGraphThatCannotBeMappedSaysSo) {
  const LaunchChain no_nodes =
      ChainOfKernel(WithGraph(/*tells_nodes=*/false, /*holds_capture=*/true).Run());
  EXPECT_THAT(no_nodes.graph, HasSubstr("does not tell its node"));
  EXPECT_TRUE(no_nodes.captured.empty());
  const LaunchChain no_capture =
      ChainOfKernel(WithGraph(/*tells_nodes=*/true, /*holds_capture=*/false).Run());
  EXPECT_THAT(no_capture.graph, HasSubstr("does not hold the graph's capture"));
  EXPECT_TRUE(no_capture.captured.empty());
}

TEST(ChainOf, AnEventOfTheHostHasWhatIsAroundIt) {
  ChainTrace trace;
  trace.Host("outer", "cpu_op", 0, 100);
  trace.Host("inner", "cpu_op", 10, 20);
  trace.Host("beside", "cpu_op", 40, 20);
  const LoadedRun run = trace.Run();
  const std::uint32_t row = RowNamed(run, "python");
  EXPECT_THAT(NamesOf(ChainOf(run, row, 1, 1)->links), ElementsAre(Pair("operator", "outer")));
  EXPECT_TRUE(ChainOf(run, row, 0, 0)->links.empty());
  const auto details = nlohmann::json::parse(*EventDetails(run, row, 1, 0));
  ASSERT_EQ(details["chain"].size(), 1u);
  EXPECT_EQ(details["chain"][0]["name"], "outer");
  EXPECT_EQ(details["chain"][0]["what"], "operator");
  EXPECT_FALSE(details.contains("forward"));
}

TEST(ChainOf, AKernelWithoutALaunchHasNone) {
  ChainTrace trace;
  trace.Kernel("gemm", 200, 7);
  EXPECT_TRUE(ChainOfKernel(trace.Run()).links.empty());
}

}  // namespace
}  // namespace strobe::viewer
