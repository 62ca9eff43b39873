#include "cli/report/digest_table.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "collector/trace/digest/digest_json.h"

namespace strobe::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kMsNs = 1'000'000;

// A worker with steps of 100, 120 and 30 ms, of which the last one is not followed.
digest::Digest DigestOf(std::string name) {
  digest::Digest digest{.worker = std::move(name), .rank = 4};
  digest.names = {"train", "gemm", "nccl", "python", "eval"};
  digest.knows.device = true;
  std::int64_t at = 0;
  for (const std::int64_t length : {100, 120, 30}) {
    digest::Step step{.number = static_cast<std::int64_t>(digest.steps.size()) + 7,
                      .begin_ns = at * kMsNs,
                      .end_ns = (at + length) * kMsNs,
                      .followed = length != 30};
    step.time = {.span_ns = length * kMsNs,
                 .compute_ns = length * kMsNs / 2,
                 .exposed_communication_ns = length * kMsNs / 4,
                 .idle_ns = length * kMsNs / 4};
    digest.steps.push_back(step);
    at += length;
  }
  digest.steps.push_back({.loop = 4, .number = 1, .begin_ns = 0, .end_ns = kMsNs});
  digest.ops = {{.name = 3, .kind = digest::WorkKind::kHost, .count = 1, .self_ns = 900 * kMsNs},
                {.name = 1, .count = 10, .total_ns = 60 * kMsNs, .self_ns = 60 * kMsNs},
                {.name = 2,
                 .kind = digest::WorkKind::kCommunication,
                 .count = 2,
                 .total_ns = 40 * kMsNs,
                 .self_ns = 40 * kMsNs}};
  return digest;
}

std::string RenderDigests(std::span<const digest::Digest> digests, std::size_t top,
                          std::size_t shown = 1000) {
  std::vector<std::uint32_t> places(std::min(shown, digests.size()));
  std::iota(places.begin(), places.end(), 0u);
  return RenderText({.sections = DigestSections(digests, top, places)});
}

TEST(DigestSections, ShowsTheMainLoopOfEachWorker) {
  const std::string text = RenderDigests(std::vector{DigestOf("w0"), DigestOf("w1")}, 10);
  EXPECT_THAT(text, HasSubstr("2 workers, steps 7 to 9 of train, median 120ms\n"));
  // Only steps that another one follows tell how long a step takes; all count for the shares.
  EXPECT_THAT(text,
              HasSubstr("w1       4      3       120ms   50.0%     25.0%           0.0%        "
                        "     25.0%   -       -\n"));
  EXPECT_THAT(text, HasSubstr("120ms   60.0%   20      6ms       compute         gemm\n"));
  EXPECT_THAT(text, HasSubstr("80ms    40.0%   4       20ms      communication   nccl\n"));
  EXPECT_THAT(text, Not(HasSubstr("python"))) << "the host does not hide what devices did";
}

TEST(DigestSections, ShowsNoMoreThanIsKnown) {
  digest::Digest digest = DigestOf("w0");
  digest.rank.reset();
  digest.knows = {.input = true};
  const std::string text = RenderDigests(std::span(&digest, 1), 1);
  EXPECT_THAT(text,
              HasSubstr("w0       -      3       120ms   -         -               -           "
                        "     -      0.0%    -\n"));
  EXPECT_THAT(text, HasSubstr("host   python\n"));
  EXPECT_THAT(text, HasSubstr("Some traces show no work"));
  const nlohmann::ordered_json json = digest::DigestToJson(digest);
  EXPECT_TRUE(json["rank"].is_null() && json["time"].is_null());
  EXPECT_TRUE(json["steps"][0]["host"]["hostBoundNs"].is_null());
  EXPECT_EQ(json["steps"][0]["host"]["inputNs"], 0);
}

TEST(DigestSections, SaysWhatTheModeOfRecordingGpusLeftOut) {
  digest::Digest digest = DigestOf("w0");
  digest.devices = {{.name = "/device:GPU:0"}};
  digest.knows.device = digest.knows.launches = true;
  const auto text = [&] { return RenderDigests(std::span(&digest, 1), 10); };
  EXPECT_THAT(text(), Not(HasSubstr("tracers.device")));
  digest.knows.launches = false;
  EXPECT_THAT(text(), HasSubstr("which calls launched their GPUs' work"));
  digest.names.emplace_back("CUDA graph");
  digest.ops.push_back({.name = static_cast<std::uint32_t>(digest.names.size() - 1)});
  EXPECT_THAT(text(), HasSubstr("each run of a CUDA graph as one event"));
}

TEST(DigestSections, SaysHowManyWorkersAreNotShown) {
  const std::string text =
      RenderDigests(std::vector{DigestOf("w0"), DigestOf("w1"), DigestOf("w2")}, 10, 1);
  EXPECT_THAT(text, HasSubstr("3 workers, steps 7 to 9"));
  EXPECT_THAT(text, HasSubstr("\n2 more workers, which take no longer, are not shown\n"));
  EXPECT_THAT(text, Not(HasSubstr("w1")));
  EXPECT_THAT(text, HasSubstr("180ms")) << "operations are those of all";
}

TEST(DigestSections, WithoutStepsShowsTheWholeRecording) {
  digest::Digest digest = DigestOf("w0");
  digest.steps.clear();
  digest.end_ns = 200 * kMsNs;
  digest.time = {.span_ns = 200 * kMsNs, .compute_ns = 20 * kMsNs, .idle_ns = 180 * kMsNs};
  const std::string text = RenderDigests(std::span(&digest, 1), 0);
  EXPECT_THAT(text, HasSubstr("1 worker, no training step was found\n"));
  EXPECT_THAT(text, HasSubstr("10.0%"));
  EXPECT_THAT(text, Not(HasSubstr("OPERATION")));
}

}  // namespace
}  // namespace strobe::cli
