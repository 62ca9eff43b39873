#include "collector/trace/report/advice.h"

#include <gmock/gmock.h>

#include <string>

#include "collector/trace/report/digest_operations.h"

namespace strobe::report {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two steps of 100 ms whose lost time is `lost`, in ms by LostPart; the second one loses twice as
// much as the first. The rest is computation.
digest::Digest Losing(const std::array<std::int64_t, kLostParts>& lost, std::uint32_t rank = 0) {
  digest::Digest digest{.worker = "w" + std::to_string(rank), .rank = rank};
  digest.names = {"train"};
  digest.devices = {{.name = "/device:GPU:0"}};
  digest.knows = {
      .device = true, .launches = true, .input = true, .garbage_collection = true, .steps = true};
  for (std::int64_t i = 0; i < 2; ++i) {
    const std::int64_t unit = (i + 1) * 1'000'000 * 2 / 3;
    digest::Step& step = digest.steps.emplace_back(digest::Step{.number = 40 + i,
                                                                .begin_ns = i * 100'000'000,
                                                                .end_ns = (i + 1) * 100'000'000,
                                                                .followed = i == 0});
    step.host = {.input_stall_ns = lost[1] * unit,
                 .garbage_collection_ns = lost[2] * unit,
                 .host_bound_ns = lost[0] * unit};
    const std::int64_t idle = (lost[0] + lost[1] + lost[2] + lost[5]) * unit;
    step.time = {.span_ns = 100'000'000,
                 .compute_ns = 100'000'000 - idle - (lost[3] + lost[4]) * unit,
                 .communication_ns = lost[3] * unit,
                 .exposed_communication_ns = lost[3] * unit,
                 .copies_ns = lost[4] * unit,
                 .exposed_copies_ns = lost[4] * unit,
                 .idle_ns = idle};
  }
  return digest;
}

std::vector<Advice> AdviceOf(const std::vector<digest::Digest>& digests) {
  DigestMerger merger;
  for (const digest::Digest& digest : digests) merger.Add(digest);
  return AdviceFor(merger.Finish());
}

std::vector<std::string> RulesOf(const std::vector<digest::Digest>& digests) {
  std::vector<std::string> rules;
  for (const Advice& advice : AdviceOf(digests)) rules.emplace_back(WordsOf(advice.rule).name);
  return rules;
}

// One trace for each rule: a little above the threshold it speaks, a little below it is silent.
TEST(AdviceFor, EachRuleSpeaksFromItsThresholdOn) {
  const std::pair<std::size_t, std::string> kRules[] = {
      {0, "launches"},      {1, "input"},  {2, "garbage-collection"},
      {3, "communication"}, {4, "copies"}, {5, "idle"}};
  for (const auto& [part, name] : kRules) {
    const auto rule = static_cast<AdviceRule>(part);
    ASSERT_EQ(WordsOf(rule).name, name);
    const double percent = 100 * WordsOf(rule).threshold;
    std::array<std::int64_t, kLostParts> lost{};
    lost[part] = static_cast<std::int64_t>(percent) + 1;
    EXPECT_THAT(RulesOf({Losing(lost)}), ElementsAre(name));
    lost[part] -= 2;
    EXPECT_THAT(RulesOf({Losing(lost)}), ElementsAre("compute")) << name;
  }
}

TEST(AdviceFor, WhatCostsMostComesFirstWithItsPlace) {
  const auto list = AdviceOf({Losing({30, 0, 0, 12, 0, 0}, 0), Losing({40, 0, 0, 50, 0, 0}, 1)});
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].what, "waiting for launches");
  EXPECT_NEAR(list[0].share, 0.35, 1e-6);
  EXPECT_EQ(list[0].worker, 1u);
  EXPECT_EQ(list[0].step, 41);
  EXPECT_EQ(list[1].what, "exposed communication");
  EXPECT_NEAR(list[1].share, 0.31, 1e-6);
}

TEST(AdviceFor, AFullDeviceIsTold) {
  digest::Digest digest = Losing({});
  digest.devices[0].peak_memory_bytes = 95;
  digest.devices[0].memory_bytes = 100;
  EXPECT_THAT(RulesOf({digest}), ElementsAre("compute", "memory"));
  digest.devices[0].peak_memory_bytes = 80;
  EXPECT_THAT(RulesOf({digest}), ElementsAre("compute"));
}

TEST(AdviceFor, WhatATraceDoesNotTellIsNoAdvice) {
  digest::Digest digest = Losing({40, 0, 0, 0, 0, 0});
  digest.knows.launches = false;
  EXPECT_THAT(RulesOf({digest}), ElementsAre("compute"));
  digest.knows.device = false;
  EXPECT_THAT(RulesOf({digest}), IsEmpty());
  EXPECT_THAT(RulesOf({}), IsEmpty());
}

TEST(AdviceFor, EachRuleHasASourceAndSaysWhatToDo) {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(AdviceRule::kCompute); ++i) {
    const AdviceWords& words = WordsOf(static_cast<AdviceRule>(i));
    EXPECT_FALSE(words.name.empty() || words.source.empty() || words.next.empty()) << i;
    EXPECT_GT(words.threshold, 0) << i;
  }
}

}  // namespace
}  // namespace strobe::report
