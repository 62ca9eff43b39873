#include "collector/trace/report/engine_times.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "collector/trace/report/headline.h"
#include "common/base/enum_names.h"
#include "common/base/quantile.h"
#include "common/base/saturated.h"
#include "common/base/strings.h"

namespace strobe::report {
namespace {

using EngineJson = nlohmann::ordered_json;

BatchPhase PhaseOf(const digest::Batch& batch) {
  if (batch.prefill_requests == 0) return BatchPhase::kDecode;
  return batch.decode_requests == 0 ? BatchPhase::kPrefill : BatchPhase::kMixed;
}

GapReason ReasonOf(const digest::Batch& next) {
  if (next.running_before < 0) return GapReason::kNotTold;
  return next.running_before == 0 ? GapReason::kNoRequests : GapReason::kScheduling;
}

// A digest may tell any moments.
std::int64_t TimeFrom(std::int64_t begin_ns, std::int64_t end_ns) {
  std::int64_t time_ns = 0;
  if (end_ns <= begin_ns) return 0;
  if (__builtin_sub_overflow(end_ns, begin_ns, &time_ns))
    return std::numeric_limits<std::int64_t>::max();
  return time_ns;
}

std::string_view UnitOf(BatchPhase phase) {
  return phase == BatchPhase::kDecode ? "request" : "token";
}

EngineJson TimesJson(const BatchTimes& times) {
  return {{"phase", NameOf(times.phase)},
          {"unit", UnitOf(times.phase)},
          {"least", times.least},
          {"most", times.most},
          {"iterations", times.iterations},
          {"tokens", times.tokens},
          {"totalNs", times.total_ns},
          {"p50Ns", times.p50_ns},
          {"p99Ns", times.p99_ns},
          {"maxNs", times.max_ns},
          {"share", times.share}};
}

}  // namespace

std::string_view NameOf(BatchPhase phase) {
  static constexpr EnumNames<BatchPhase, 3> kNames({{BatchPhase::kDecode, "decode"},
                                                    {BatchPhase::kPrefill, "prefill"},
                                                    {BatchPhase::kMixed, "mixed"}});
  return kNames.Of(phase);
}

std::string_view NameOf(GapReason reason) {
  static constexpr EnumNames<GapReason, 3> kNames({{GapReason::kNoRequests, "no requests"},
                                                   {GapReason::kScheduling, "scheduling"},
                                                   {GapReason::kNotTold, "not told"}});
  return kNames.Of(reason);
}

std::string SizeText(const BatchTimes& times) {
  const std::string_view unit = UnitOf(times.phase);
  if (times.least == times.most) return StrCat(times.most, " ", unit, times.most == 1 ? "" : "s");
  return StrCat(times.least, " to ", times.most, " ", unit, "s");
}

void EngineTimes::Gaps::Add(const Gaps& more) {
  iterations_ns = AddSaturated(iterations_ns, more.iterations_ns);
  gaps_ns = AddSaturated(gaps_ns, more.gaps_ns);
  for (std::size_t i = 0; i < by_reason.size(); ++i) {
    by_reason[i].gaps += more.by_reason[i].gaps;
    by_reason[i].total_ns = AddSaturated(by_reason[i].total_ns, more.by_reason[i].total_ns);
    by_reason[i].max_ns = std::max(by_reason[i].max_ns, more.by_reason[i].max_ns);
  }
}

EngineTimes::Gaps EngineTimes::GapsOf(const digest::Digest& digest) {
  Gaps gaps;
  std::optional<std::int64_t> ended_ns;  // The last iteration.
  for (const digest::Step& step : digest.steps) {
    if (!step.batch.any()) continue;
    gaps.iterations_ns =
        AddSaturated(gaps.iterations_ns, TimeFrom(step.begin_ns, step.annotation_end_ns));
    if (ended_ns && *ended_ns < step.begin_ns) {
      const std::int64_t gap_ns = TimeFrom(*ended_ns, step.begin_ns);
      GapTimes& times = gaps.by_reason[static_cast<std::size_t>(ReasonOf(step.batch))];
      ++times.gaps;
      times.total_ns = AddSaturated(times.total_ns, gap_ns);
      times.max_ns = std::max(times.max_ns, gap_ns);
      gaps.gaps_ns = AddSaturated(gaps.gaps_ns, gap_ns);
    }
    ended_ns = std::max(ended_ns.value_or(step.annotation_end_ns), step.annotation_end_ns);
  }
  return gaps;
}

void EngineTimes::Add(const digest::Digest& digest) {
  for (const digest::Step& step : digest.steps) {
    if (!step.batch.any()) continue;
    const BatchPhase phase = PhaseOf(step.batch);
    const std::int64_t size =
        phase == BatchPhase::kDecode ? step.batch.decode_requests : step.batch.prefill_tokens;
    // 1, 2, 3 and 4, 5 to 8, and so on.
    const auto halved = static_cast<int>(
        std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1) - 1)));
    AddTo(phases_[static_cast<std::size_t>(phase)], phase, step);
    AddTo(sizes_[{phase, halved}], phase, step);
  }
  const Gaps gaps = GapsOf(digest);
  const GapTimes& not_told = gaps.by_reason[static_cast<std::size_t>(GapReason::kNotTold)];
  (not_told.total_ns < gaps.gaps_ns ? with_schedule_ : without_schedule_).Add(gaps);
}

void EngineTimes::AddTo(Sum& sum, BatchPhase phase, const digest::Step& step) {
  const digest::Batch& batch = step.batch;
  const std::int64_t size =
      phase == BatchPhase::kDecode ? batch.decode_requests : batch.prefill_tokens;
  const std::int64_t took_ns = TimeFrom(step.begin_ns, step.annotation_end_ns);
  BatchTimes& times = sum.times;
  times.phase = phase;
  times.least = times.iterations == 0 ? size : std::min(times.least, size);
  times.most = std::max(times.most, size);
  ++times.iterations;
  times.tokens =
      AddSaturated(times.tokens, AddSaturated(batch.prefill_tokens, batch.decode_tokens));
  times.total_ns = AddSaturated(times.total_ns, took_ns);
  times.max_ns = std::max(times.max_ns, took_ns);
  if (sum.durations.size() < kMaxDurations) sum.durations.push_back(took_ns);
}

BatchTimes EngineTimes::Summary(Sum& sum) {
  sum.times.p50_ns = QuantileOf(sum.durations, 0.5);
  sum.times.p99_ns = QuantileOf(sum.durations, 0.99);
  return sum.times;
}

EngineReport EngineTimes::Finish() {
  EngineReport report;
  Gaps& gaps = with_schedule_.gaps_ns > 0 ? with_schedule_ : without_schedule_;
  const double all_ns = static_cast<double>(gaps.gaps_ns) + static_cast<double>(gaps.iterations_ns);
  if (all_ns > 0) report.idle = static_cast<double>(gaps.gaps_ns) / all_ns;
  double iterations_ns = 0;
  for (Sum& phase : phases_) {
    if (phase.times.iterations == 0) continue;
    report.phases.push_back(Summary(phase));
    iterations_ns += static_cast<double>(phase.times.total_ns);
  }
  for (auto& [size, sum] : sizes_) report.sizes.push_back(Summary(sum));
  for (std::vector<BatchTimes>* list : {&report.phases, &report.sizes}) {
    for (BatchTimes& times : *list)
      times.share =
          (1 - report.idle) * static_cast<double>(times.total_ns) / std::max(iterations_ns, 1.0);
  }
  for (std::size_t i = 0; i < gaps.by_reason.size(); ++i) {
    GapTimes& times = gaps.by_reason[i];
    if (times.gaps == 0) continue;
    times.reason = static_cast<GapReason>(i);
    times.share = static_cast<double>(times.total_ns) / all_ns;
    report.gaps.push_back(times);
  }
  return report;
}

std::string EngineHeadline(const EngineReport& engine) {
  std::vector<std::string> phases;
  for (const BatchTimes& times : engine.phases)
    phases.push_back(StrCat(NameOf(times.phase), " ", TimeText(static_cast<double>(times.p50_ns)),
                            " at ", SizeText(times), " (", times.iterations, ")"));
  std::string text = Join(phases, ", ");
  if (engine.gaps.empty()) return text;
  const auto most = std::max_element(
      engine.gaps.begin(), engine.gaps.end(),
      [](const GapTimes& a, const GapTimes& b) { return a.total_ns < b.total_ns; });
  text += StrCat("; ", PercentText(engine.idle), " of the time between iterations");
  if (most->reason != GapReason::kNotTold) text += StrCat(", most of it: ", NameOf(most->reason));
  return text;
}

std::string WithEngine(const EngineReport& engine, std::size_t workers, std::string headline) {
  if (engine.empty()) return headline;
  return workers > 1 ? StrCat(EngineHeadline(engine), "; ", headline) : EngineHeadline(engine);
}

nlohmann::ordered_json EngineToJson(const EngineReport& engine) {
  EngineJson phases = EngineJson::array(), sizes = EngineJson::array(), gaps = EngineJson::array();
  for (const BatchTimes& times : engine.phases) phases.push_back(TimesJson(times));
  for (const BatchTimes& times : engine.sizes) sizes.push_back(TimesJson(times));
  for (const GapTimes& gap : engine.gaps)
    gaps.push_back({{"reason", NameOf(gap.reason)},
                    {"gaps", gap.gaps},
                    {"totalNs", gap.total_ns},
                    {"maxNs", gap.max_ns},
                    {"share", gap.share}});
  return {{"phases", std::move(phases)}, {"sizes", std::move(sizes)}, {"gaps", std::move(gaps)}};
}

}  // namespace strobe::report
