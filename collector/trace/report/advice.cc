#include "collector/trace/report/advice.h"

#include <algorithm>
#include <array>

namespace strobe::report {
namespace {

// The sources are XProf's analysis of input pipelines (op_stats_to_input_pipeline_analysis.cc: from
// these shares on, a program counts as moderately bound by input or by launches, and as highly
// bound by all other time) and the recommendations of PyTorch's TensorBoard plugin
// (run_generator.py's analyze()). Where neither has a threshold, it is that of this report.
constexpr std::array<AdviceWords, 8> kAdviceWords = {{
    {.name = "launches",
     .threshold = 0.03,
     .source = "XProf",
     .next = "Launch less often: torch.compile, CUDA graphs, larger batches or jit of larger "
             "functions. Look for synchronizations before the gaps, such as .item() or .cpu().",
     .link = "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs"},
    {.name = "input",
     .threshold = 0.05,
     .source = "XProf, PyTorch's TensorBoard plugin",
     .next = "Load ahead: num_workers and prefetch_factor of the DataLoader, or prefetch of "
             "tf.data. Look at storage and decoding.",
     .link = "https://docs.pytorch.org/docs/stable/"
             "data.html#single-and-multi-process-data-loading"},
    {.name = "garbage-collection",
     .threshold = 0.01,
     .source = "Strobe",
     .next = "Call gc.freeze() once all modules are built, or collect only between steps.",
     .link = "https://docs.python.org/3/library/gc.html#gc.freeze"},
    {.name = "communication",
     .threshold = 0.1,
     .source = "PyTorch's TensorBoard plugin",
     .next =
         "Overlap or shrink it: larger buckets, gradient accumulation, compression, or a larger "
         "batch. Look at who waited before you blame the network.",
     .link = "https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html"},
    {.name = "copies",
     .threshold = 0.05,
     .source = "XProf",
     .next = "Copy from pinned memory with non_blocking=True, and ahead of the step.",
     .link = "https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers"},
    {.name = "idle",
     .threshold = 0.15,
     .source = "XProf",
     .next = "The trace gives no reason: look for checkpoints, evaluation and locks, and annotate "
             "what the program does there.",
     .link = "https://docs.pytorch.org/docs/stable/generated/torch.profiler.record_function.html"},
    {.name = "memory",
     .threshold = 0.9,
     .source = "PyTorch's TensorBoard plugin",
     .next = "A larger batch will not fit: checkpoint activations or use a narrower type.",
     .link = "https://docs.pytorch.org/docs/stable/checkpoint.html"},
    {.name = "compute",
     .threshold = 0.5,
     .source = "Strobe",
     .next = "Look at the operations with the most self time: their number format, shapes and "
             "fusion.",
     .link = ""},
}};

AdviceRule RuleOf(LostPart part) {
  switch (part) {
    case LostPart::kLaunches:
      return AdviceRule::kLaunches;
    case LostPart::kInput:
      return AdviceRule::kInput;
    case LostPart::kGarbageCollection:
      return AdviceRule::kGarbageCollection;
    case LostPart::kCommunication:
      return AdviceRule::kCommunication;
    case LostPart::kCopies:
      return AdviceRule::kCopies;
    case LostPart::kOtherIdle:
      break;
  }
  return AdviceRule::kOtherIdle;
}

// The mean of what the workers tell, and the worker that tells most. `value` returns nullopt for a
// worker that does not tell it.
template <typename Value>
std::optional<Advice> MeanOf(const Job& job, AdviceRule rule, Value value) {
  Advice advice{.rule = rule};
  double most = -1, tellers = 0;
  for (std::uint32_t i = 0; i < job.workers.size(); ++i) {
    if (!job.workers[i].time.has_device) continue;
    const std::optional<double> share = value(job.workers[i].time);
    if (!share) continue;
    ++tellers;
    advice.share += *share;
    if (*share > most) {
      most = *share;
      advice.worker = i;
    }
  }
  if (tellers == 0) return std::nullopt;
  advice.share /= tellers;
  if (advice.share < WordsOf(rule).threshold) return std::nullopt;
  return advice;
}

}  // namespace

const AdviceWords& WordsOf(AdviceRule rule) { return kAdviceWords[static_cast<std::size_t>(rule)]; }

std::vector<Advice> AdviceFor(const Job& job) {
  std::vector<Advice> list;
  for (std::size_t i = 0; i < kLostParts; ++i) {
    const auto part = static_cast<LostPart>(i);
    std::optional<Advice> advice =
        MeanOf(job, RuleOf(part), [&](const WorkerTime& time) -> std::optional<double> {
          return time.lost[i].measured ? std::optional(time.lost[i].share) : std::nullopt;
        });
    if (!advice) continue;
    const WorkerTime& time = job.workers[advice->worker].time;
    advice->what = LostPartText(part, time.communication);
    advice->step = time.lost[i].step;
    list.push_back(*std::move(advice));
  }
  if (list.empty()) {
    std::optional<Advice> advice = MeanOf(job, AdviceRule::kCompute, [](const WorkerTime& time) {
      return std::optional(time.compute);
    });
    if (advice) {
      advice->what = "computing";
      list.push_back(*std::move(advice));
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Advice& a, const Advice& b) { return a.share > b.share; });
  std::optional<Advice> memory =
      MeanOf(job, AdviceRule::kMemory, [](const WorkerTime& time) { return time.memory; });
  if (memory) {
    memory->what = "of the device's memory in use";
    list.push_back(*std::move(memory));
  }
  return list;
}

}  // namespace strobe::report
