#include "collector/trace/report/what_if.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/strings.h"
#include "tests/fakes/published_job.h"
#include "tests/fakes/slowdown_parts.h"
#include "tests/fakes/unit_dir.h"

namespace strobe::report {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kMs = 1'000'000;

// A pass of each of two workers of two stages, and clipping, in which both wait for each other.
Job TwoWorkers(std::int64_t first_ms, std::int64_t second_ms, std::int64_t clip_ms) {
  std::vector<PipelineOperation> operations;
  const auto add = [&](std::uint32_t stage, PipelineKind kind, std::int64_t begin,
                       std::int64_t duration) {
    operations.push_back(
        {.stage = stage, .kind = kind, .begin_ns = begin * kMs, .duration_ns = duration * kMs});
  };
  const std::int64_t end = std::max(first_ms, second_ms) + clip_ms;
  add(0, PipelineKind::kBackward, 0, first_ms);
  add(0, PipelineKind::kClipGrads, first_ms, end - first_ms);
  add(1, PipelineKind::kBackward, 0, second_ms);
  add(1, PipelineKind::kClipGrads, second_ms, end - second_ms);
  return *MakePipelineJob(operations);
}

TEST(ComputeSlowdown, ComparesWithAJobWhoseWorkersAreAlike) {
  const Job job = TwoWorkers(300, 100, 50);
  Replays replays(job);
  EXPECT_DOUBLE_EQ(ComputeSlowdown(job, replays).value_or(-1), 1.4);
  const auto slowdown = ComputeSlowdownParts(job, replays);
  ASSERT_TRUE(slowdown);
  EXPECT_THAT(slowdown->recorded_ns, ElementsAre(350e6));
  EXPECT_THAT(slowdown->replayed_ns, ElementsAre(350e6));
  EXPECT_THAT(slowdown->ideal_ns, ElementsAre(250e6)) << "both take 200 ms, then clip";
  EXPECT_DOUBLE_EQ(slowdown->slowdown, 1.4);
  ASSERT_EQ(slowdown->by_stage.size(), 2u);
  EXPECT_DOUBLE_EQ(slowdown->by_stage[0].slowdown, 1.4);
  EXPECT_DOUBLE_EQ(slowdown->by_stage[1].slowdown, 1.0);
  EXPECT_THAT(slowdown->by_replica, IsEmpty()) << "there is only one";
  ASSERT_EQ(slowdown->by_type.size(), 2u);
  EXPECT_EQ(slowdown->by_type[0].part, "backward-compute");
  EXPECT_DOUBLE_EQ(slowdown->by_type[0].slowdown, 1.4);
  EXPECT_DOUBLE_EQ(slowdown->by_type[1].slowdown, 1.0);
  EXPECT_DOUBLE_EQ(slowdown->slowest_worker_share.value_or(-1), 1.0);
  EXPECT_DOUBLE_EQ(slowdown->last_stage_share.value_or(-1), 0.0)
      << "the first stage keeps its 300 ms";
}

TEST(ComputeSlowdown, TellsNothingOfAJobWithoutOperations) {
  const Job job;
  Replays replays(job);
  EXPECT_FALSE(ComputeSlowdown(job, replays));
}

// The published answers, in tests/data/straggler-analysis.
class Published {
 public:
  explicit Published(const std::string& name)
      : folder_(StrCat(UnitDir(), "/../data/straggler-analysis/")),
        answers_(Read(StrCat("result-", name, ".json.gz"))),
        worker_(Read(StrCat("mw-", name, ".json"))),
        stage_(Read(StrCat("ms-", name, ".json"))) {
    const auto operations = ReadPublishedJob(StrCat(folder_, name, ".txt.gz"));
    EXPECT_TRUE(operations.ok()) << operations.status();
    job_ = *MakePipelineJob(*operations);
  }

  // The largest difference of a part's slowdown, of the mean and in any step.
  double Difference(const std::string& by, const char* word, const SlowdownParts& slowdown,
                    const std::vector<PartSlowdown>& parts) const {
    const json& total = answers_.at("blocking_decompose_by_" + by);
    const json& steps = answers_.at("blocking_decompose_by_" + by + "_per_step");
    EXPECT_EQ(parts.size(), total.size());
    double largest = 0;
    const auto compare = [&](const json& answer, double ours) {
      largest = std::max(largest, std::fabs(answer.get<double>() - ours));
    };
    for (const PartSlowdown& part : parts) {
      const std::string key = part.part.substr(std::string_view(word).size());
      compare(total.at(key), part.slowdown);
      for (std::size_t i = 0; i < slowdown.steps.size(); ++i)
        compare(steps.at(std::to_string(slowdown.steps[i])).at(key), part.by_step[i]);
    }
    return largest;
  }

  // The largest relative difference of the times of a step.
  double TimeDifference(const char* key, const SlowdownParts& slowdown,
                        const std::vector<double>& times_ns) const {
    const json& answer = answers_.at(key);
    EXPECT_EQ(times_ns.size(), answer.size());
    double largest = 0;
    for (std::size_t i = 0; i < times_ns.size(); ++i) {
      const double seconds = answer.at(std::to_string(slowdown.steps[i])).get<double>();
      largest = std::max(largest, std::fabs(times_ns[i] / 1e9 / seconds - 1));
    }
    return largest;
  }

  const Job& job() const { return job_; }
  double answer(const char* key) const { return answers_.at(key).get<double>(); }
  double worker_share() const { return worker_.at("Mw").get<double>(); }
  double stage_share() const { return stage_.at("Ms").get<double>(); }

 private:
  json Read(const std::string& file) const {
    const auto text = ReadPublishedFile(folder_ + file);
    EXPECT_TRUE(text.ok()) << text.status();
    return json::parse(*text);
  }

  std::string folder_;
  json answers_, worker_, stage_;
  Job job_{};
};

// The required accuracy is 3 % of S and 0.03 of each part. The tolerances here are what the
// rounding of the committed times, and details of the method that the publication leaves open, make
// necessary.
void ExpectThePublishedAnswers(const Published& published) {
  Replays replays(published.job());
  const auto slowdown = ComputeSlowdownParts(published.job(), replays);
  ASSERT_TRUE(slowdown);
  EXPECT_NEAR(ComputeSlowdown(published.job(), replays).value_or(-9),
              published.answer("blocking_slowdown"), 0.002);
  EXPECT_EQ(replays.circles(), 0u);
  EXPECT_NEAR(slowdown->slowdown, published.answer("blocking_slowdown"), 0.002);
  EXPECT_LT(published.TimeDifference("step_t_base", *slowdown, slowdown->recorded_ns), 0.001);
  EXPECT_LT(published.TimeDifference("step_t_nodelay", *slowdown, slowdown->replayed_ns), 0.001);
  EXPECT_LT(published.TimeDifference("step_t_noblk", *slowdown, slowdown->ideal_ns), 0.001);
  EXPECT_LT(published.Difference("dp_rank", "replica ", *slowdown, slowdown->by_replica), 0.003);
  EXPECT_LT(published.Difference("stage", "stage ", *slowdown, slowdown->by_stage), 0.003);
  EXPECT_LT(published.Difference("optype", "", *slowdown, slowdown->by_type), 0.003);
  EXPECT_NEAR(slowdown->slowest_worker_share.value_or(-9), published.worker_share(), 0.005);
  EXPECT_NEAR(slowdown->last_stage_share.value_or(-9), published.stage_share(), 0.005);
}

TEST(ComputeSlowdown, GivesThePublishedAnswersForAJobWithASlowWorker) {
  ExpectThePublishedAnswers(Published("AR"));
}

TEST(ComputeSlowdown, GivesThePublishedAnswersForAJobWithALongStage) {
  ExpectThePublishedAnswers(Published("ST"));
}

}  // namespace
}  // namespace strobe::report
