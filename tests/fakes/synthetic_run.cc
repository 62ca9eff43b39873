#include "tests/fakes/synthetic_run.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/fakes/dice.h"

namespace strobe {
namespace {

struct BaseOp {
  const char* name;
  digest::WorkKind kind;
  double ms;
  std::uint64_t calls;
};
// In the order of a step. What is communicated is exposed but for kHiddenMs.
constexpr BaseOp kBaseOps[] = {{"MemcpyHtoD", digest::WorkKind::kCopy, 5, 4},
                               {"gemm_large", digest::WorkKind::kCompute, 20, 48},
                               {"attention", digest::WorkKind::kCompute, 12, 24},
                               {"gemm_small", digest::WorkKind::kCompute, 8, 96},
                               {"layer_norm", digest::WorkKind::kCompute, 6, 48},
                               {"gelu", digest::WorkKind::kCompute, 5, 24},
                               {"softmax", digest::WorkKind::kCompute, 4, 24},
                               {"adam", digest::WorkKind::kCompute, 2, 1},
                               {"dropout", digest::WorkKind::kCompute, 1.5, 24},
                               {"embedding", digest::WorkKind::kCompute, 1, 1},
                               {"loss", digest::WorkKind::kCompute, 0.5, 1},
                               {"all_reduce", digest::WorkKind::kCommunication, 12, 12},
                               {"all_gather", digest::WorkKind::kCommunication, 6, 6}};
constexpr double kHiddenMs = 4;

enum Kind : std::size_t { kOfInput, kOfHost, kOfCopies, kOfCompute, kOfCommunication, kKinds };
// Input and communication vary more than the rest.
constexpr std::array<double, kKinds> kNoisiness = {3, 2, 1.5, 1, 3};

Kind KindOf(digest::WorkKind kind) {
  return kind == digest::WorkKind::kCopy      ? kOfCopies
         : kind == digest::WorkKind::kCompute ? kOfCompute
                                              : kOfCommunication;
}

struct RunOp {
  std::string name{};
  digest::WorkKind kind = digest::WorkKind::kCompute;
  double ms = 0;
  std::uint64_t calls = 1;
};

// One worker's step.
struct PlayedStep {
  double input = 0, host = 0;
  std::vector<double> ops{};  // In ms, in the order of RunSimulation::ops_.
  double exposed = 0;         // Communication, with waiting for others.

  double Own(const std::vector<RunOp>& all) const {
    double own = input + host;
    for (std::size_t i = 0; i < ops.size(); ++i)
      own += all[i].kind == digest::WorkKind::kCommunication ? 0 : ops[i];
    return own;
  }
};

class RunSimulation {
 public:
  explicit RunSimulation(const SyntheticRun& run)
      : run_(run), dice_(run.seed * 6271 + 5), all_steps_(run.steps + 3) {
    for (const BaseOp& op : kBaseOps) {
      const auto found = run.factors.find(op.name);
      AddOp({op.name, op.kind, op.ms * (found == run.factors.end() ? 1 : found->second), op.calls});
    }
    for (const auto& [name, ms] : run.added) AddOp({name, digest::WorkKind::kCompute, ms, 8});
  }

  std::vector<digest::Digest> Run() {
    DrawCommonNoise();
    std::vector<std::vector<PlayedStep>> played;  // By step, then worker.
    std::vector<double> speeds;
    for (std::size_t worker = 0; worker < run_.workers; ++worker)
      speeds.push_back(1 + run_.speed * dice_.Normal());
    for (std::size_t step = 0; step < all_steps_; ++step) played.push_back(Play(step, speeds));
    std::vector<digest::Digest> digests;
    for (std::size_t worker = 0; worker < run_.workers; ++worker)
      digests.push_back(DigestOf(worker, played));
    return digests;
  }

 private:
  void AddOp(RunOp op) {
    op.ms *= 1 + run_.run_shift * dice_.Normal();
    ops_.push_back(std::move(op));
  }

  void DrawCommonNoise() {
    const double fresh = std::sqrt(1 - run_.resemblance * run_.resemblance);
    const double drift = run_.drift * dice_.Normal();
    std::array<double, kKinds> noise{};
    for (double& value : noise) value = dice_.Normal();
    for (std::size_t step = 0; step < all_steps_; ++step) {
      const double place = static_cast<double>(step) / static_cast<double>(all_steps_) - 0.5;
      std::array<double, kKinds>& factors = common_.emplace_back();
      for (std::size_t kind = 0; kind < kKinds; ++kind) {
        noise[kind] = run_.resemblance * noise[kind] + fresh * dice_.Normal();
        factors[kind] = std::exp(run_.step_noise * kNoisiness[kind] * noise[kind] + drift * place);
      }
    }
  }

  std::vector<PlayedStep> Play(std::size_t number, const std::vector<double>& speeds) {
    std::vector<PlayedStep> workers(run_.workers);
    double slowest = 0, transfer = 0;
    const bool is_long = dice_.Uniform() < run_.long_steps;
    const double longer = is_long ? dice_.Exponential(10) : 0;
    for (std::size_t worker = 0; worker < run_.workers; ++worker) {
      PlayedStep& step = workers[worker];
      const auto noisy = [&](Kind kind) {
        return common_[number][kind] * speeds[worker] *
               std::exp(run_.worker_noise * dice_.Normal());
      };
      step.input = run_.input_ms * noisy(kOfInput);
      step.host = run_.host_ms * noisy(kOfHost) + longer;
      if (number == 1) step.host += 8;  // The profiler has just begun to record.
      for (const RunOp& op : ops_) step.ops.push_back(op.ms * noisy(KindOf(op.kind)));
      slowest = std::max(slowest, step.Own(ops_));
    }
    for (const RunOp& op : ops_)
      transfer += op.kind == digest::WorkKind::kCommunication
                      ? op.ms * common_[number][kOfCommunication]
                      : 0;
    for (PlayedStep& step : workers) {
      step.exposed = slowest - step.Own(ops_) + transfer;
      const double stretch = (step.exposed + kHiddenMs) / transfer;
      for (std::size_t i = 0; i < ops_.size(); ++i) {
        if (ops_[i].kind == digest::WorkKind::kCommunication)
          step.ops[i] = ops_[i].ms * common_[number][kOfCommunication] * stretch;
      }
    }
    return workers;
  }

  digest::Digest DigestOf(std::size_t worker, const std::vector<std::vector<PlayedStep>>& played) {
    digest::Digest digest{.worker = "worker-" + std::to_string(worker),
                          .rank = static_cast<std::uint32_t>(worker),
                          .zero_ns = 1'790'000'000'000'000'000,
                          .clock_error_ns = 100'000};
    digest.knows = {.device = true, .launches = true, .input = true, .steps = true};
    digest.names = {"train"};
    std::vector<double> self(ops_.size()), calls(ops_.size());
    // The first step is recorded from `begin` on and the last one up to `end`, as shares of it.
    const double begin = dice_.Uniform(), end = dice_.Uniform();
    double now = 0;
    const auto duration = [&](std::size_t step) {
      return played[step][worker].Own(ops_) + played[step][worker].exposed;
    };
    for (std::size_t step = 0; step < all_steps_; ++step) {
      const PlayedStep& of = played[step][worker];
      const bool first = step == 0, last = step + 1 == all_steps_;
      const double from = first ? begin : 0, to = last ? end : 1;
      double place = of.input + of.host;
      double busy = 0;
      for (std::size_t i = 0; i < ops_.size(); ++i) {
        const bool hides = ops_[i].kind == digest::WorkKind::kCommunication;
        const double shown = hides ? of.ops[i] * of.exposed / (of.exposed + kHiddenMs) : of.ops[i];
        const double middle = (place + shown / 2) / duration(step);
        place += shown;
        if (middle < from || middle > to) continue;
        self[i] += of.ops[i];
        calls[i] += static_cast<double>(ops_[i].calls);
        busy += shown;
        if (ops_[i].kind == digest::WorkKind::kCompute) digest.time.compute_ns += Ns(shown);
      }
      digest.time.span_ns += Ns((to - from) * duration(step));
      digest.time.idle_ns += Ns((to - from) * duration(step)) - Ns(busy);
      if (!first && !last) AddStep(of, now, step, digest);
      now += first ? 0 : duration(step);
    }
    digest.time.idle_ns = std::max<std::int64_t>(digest.time.idle_ns, 0);
    digest.begin_ns = -Ns((1 - begin) * duration(0));
    digest.end_ns = digest.begin_ns + digest.time.span_ns;
    AddOps(self, calls, digest);
    return digest;
  }

  void AddStep(const PlayedStep& of, double now, std::size_t number, digest::Digest& digest) const {
    digest::Step step{.number = static_cast<std::int64_t>(number),
                      .begin_ns = Ns(now),
                      .end_ns = Ns(now + of.Own(ops_) + of.exposed),
                      .followed = number + 2 < all_steps_};
    step.time.span_ns = step.end_ns - step.begin_ns;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (ops_[i].kind == digest::WorkKind::kCompute) step.time.compute_ns += Ns(of.ops[i]);
      if (ops_[i].kind == digest::WorkKind::kCopy) step.time.copies_ns += Ns(of.ops[i]);
    }
    step.time.exposed_copies_ns = step.time.copies_ns;
    step.time.exposed_communication_ns = Ns(of.exposed);
    step.time.communication_ns = Ns(of.exposed + kHiddenMs);
    step.time.idle_ns = step.time.span_ns - step.time.compute_ns - step.time.exposed_copies_ns -
                        step.time.exposed_communication_ns;
    step.host = {.input_ns = Ns(of.input),
                 .input_stall_ns = Ns(0.97 * of.input),
                 .host_bound_ns = Ns(0.95 * of.host)};
    digest.steps.push_back(step);
  }

  void AddOps(const std::vector<double>& self, const std::vector<double>& calls,
              digest::Digest& digest) {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (calls[i] == 0) continue;
      digest.names.push_back(ops_[i].name);
      const double mean = self[i] / calls[i];
      digest.ops.push_back({.name = static_cast<std::uint32_t>(digest.names.size() - 1),
                            .kind = ops_[i].kind,
                            .count = static_cast<std::uint64_t>(calls[i]),
                            .total_ns = Ns(self[i]),
                            .self_ns = Ns(self[i]),
                            .p50_ns = Ns(mean),
                            .p99_ns = Ns(mean * (1 + 2.5 * run_.worker_noise))});
    }
    std::stable_sort(digest.ops.begin(), digest.ops.end(),
                     [](const auto& a, const auto& b) { return a.self_ns > b.self_ns; });
  }

  static std::int64_t Ns(double ms) { return std::llround(ms * 1e6); }

  const SyntheticRun& run_;
  Dice dice_;
  const std::size_t all_steps_;  // One incomplete step before the complete ones, and one after.
  std::vector<RunOp> ops_{};
  std::vector<std::array<double, kKinds>> common_{};  // By step.
};

}  // namespace

std::vector<digest::Digest> SimulateRun(const SyntheticRun& run) {
  return RunSimulation(run).Run();
}

}  // namespace strobe
