#include "tests/fakes/synthetic_job.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "tests/fakes/dice.h"

namespace strobe {
namespace {

constexpr std::int64_t kStartNs = 1'790'000'000'000'000'000;

enum Phase : std::size_t { kInput, kHost, kCopies, kCompute, kPhases };
constexpr double kPhaseMs[kPhases] = {kInputMs, kHostMs, kCopiesMs, kComputeMs};

Phase PhaseOf(report::Cause cause) {
  switch (cause) {
    case report::Cause::kInput:
      return kInput;
    case report::Cause::kHost:
      return kHost;
    case report::Cause::kCopies:
      return kCopies;
    default:
      return kCompute;
  }
}

// What one worker draws for one step, in ms.
struct Drawn {
  double phases[kPhases] = {};
  double added = 0;  // To the phase of the one who is slowed.
};

struct Call {
  double arrival = 0, end = 0;
};
struct Timeline {  // One worker's step, in true ms.
  double begin = 0, end = 0;
  std::vector<Call> calls{};
};

class Simulation {
 public:
  explicit Simulation(const SyntheticJob& job)
      // One step is recorded before the first complete one, and one after the last.
      : job_(job), dice_(job.seed * 7919 + 17), steps_(job.steps + 2) {
    for (std::size_t worker = 0; worker < job.workers; ++worker)
      speed_.push_back(1 + 0.003 * dice_.Normal());
    Draw();
  }

  SimulatedJob Run() {
    SimulatedJob result;
    result.step_ms_without_slowed = Play(false);
    result.step_ms = Play(true);
    for (std::size_t worker = 0; worker < job_.workers; ++worker)
      result.digests.push_back(DigestOf(worker));
    return result;
  }

 private:
  void Draw() {
    drawn_.assign(job_.workers, std::vector<Drawn>(steps_));
    transfers_.assign(steps_ * job_.collectives, 0);
    for (double& transfer : transfers_) transfer = kTransferMs * std::exp(0.1 * dice_.Normal());
    for (std::size_t worker = 0; worker < job_.workers; ++worker) {
      for (Drawn& drawn : drawn_[worker]) {
        for (std::size_t phase = 0; phase < kPhases; ++phase)
          drawn.phases[phase] = kPhaseMs[phase] * speed_[worker] * std::exp(0.015 * dice_.Normal());
        if (dice_.Uniform() < 0.01)
          drawn.phases[static_cast<std::size_t>(dice_.Uniform() * double{std::size(kPhaseMs)})] +=
              dice_.Exponential(5);
      }
    }
    for (const SlowedWorker& slowed : job_.slowed) {
      for (Drawn& drawn : drawn_[slowed.worker]) {
        if (dice_.Uniform() < slowed.probability)
          drawn.added = slowed.ms * std::exp(0.05 * dice_.Normal());
      }
    }
  }

  Phase SlowedPhase(std::size_t worker) const {
    for (const SlowedWorker& slowed : job_.slowed) {
      if (slowed.worker == worker) return PhaseOf(slowed.cause);
    }
    return kPhases;
  }

  double PhaseMs(std::size_t worker, std::size_t step, Phase phase, bool slow) const {
    const Drawn& drawn = drawn_[worker][step];
    return drawn.phases[phase] + (slow && SlowedPhase(worker) == phase ? drawn.added : 0);
  }

  // Plays all steps; returns the mean duration of the complete ones. Input, host and copies come
  // first. Computation is cut by the collectives; a tenth of it follows the last one.
  double Play(bool slow) {
    timelines_.assign(job_.workers, std::vector<Timeline>(steps_));
    std::vector<double> now(job_.workers, 0);
    double first = 0, last = 0;
    for (std::size_t step = 0; step < steps_; ++step) {
      const auto mean_now = [&] {
        double sum = 0;
        for (const double time : now) sum += time;
        return sum / static_cast<double>(now.size());
      };
      if (step == 1) first = mean_now();
      if (step == steps_ - 1) last = mean_now();
      for (std::size_t worker = 0; worker < job_.workers; ++worker) {
        timelines_[worker][step].begin = now[worker];
        for (const Phase phase : {kInput, kHost, kCopies})
          now[worker] += PhaseMs(worker, step, phase, slow);
      }
      for (std::size_t call = 0; call < job_.collectives; ++call) PlayCall(step, call, slow, now);
      for (std::size_t worker = 0; worker < job_.workers; ++worker) {
        now[worker] += 0.1 * PhaseMs(worker, step, kCompute, slow);
        timelines_[worker][step].end = now[worker];
      }
    }
    return (last - first) / static_cast<double>(job_.steps);
  }

  void PlayCall(std::size_t step, std::size_t call, bool slow, std::vector<double>& now) {
    double last = 0;
    const double part = 0.9 / static_cast<double>(job_.collectives);
    for (std::size_t worker = 0; worker < job_.workers; ++worker) {
      now[worker] += part * PhaseMs(worker, step, kCompute, slow);
      timelines_[worker][step].calls.push_back({.arrival = now[worker]});
      last = std::max(last, now[worker]);
    }
    const double end = last + transfers_[step * job_.collectives + call];
    for (std::size_t worker = 0; worker < job_.workers; ++worker) {
      now[worker] = end + 0.01 * static_cast<double>((worker * 7 + step) % 5);
      timelines_[worker][step].calls.back().end = now[worker];
    }
  }

  digest::Digest DigestOf(std::size_t worker) {
    const double offset = dice_.Between(-50, 50);
    const double error = dice_.Between(job_.smallest_clock_error_ms, job_.largest_clock_error_ms);
    digest::Digest digest{.worker = "worker-" + std::to_string(worker),
                          .rank = static_cast<std::uint32_t>(worker),
                          .zero_ns = kStartNs,
                          .clock_offset_ns = Ns(offset + dice_.Between(-error, error)),
                          .clock_error_ns = Ns(error)};
    digest.knows = {
        .device = true, .launches = true, .input = true, .garbage_collection = true, .steps = true};
    digest.names = {"train", "all-reduce"};
    digest.devices = {{.name = "/device:GPU:0"}};
    digest.communicators = {{.name = "0", .size = static_cast<std::uint32_t>(job_.workers)}};
    // Some workers recorded a whole step more, others only calls of it.
    const std::size_t missed =
        static_cast<std::size_t>(dice_.Uniform() * static_cast<double>(job_.collectives + 1));
    const std::size_t first = missed == 0 ? 0 : 1;
    std::uint32_t ordinal = 0;
    for (std::size_t step = 0; step < steps_; ++step) {
      const Timeline& line = timelines_[worker][step];
      for (std::size_t call = step == 0 ? missed : 0; call < line.calls.size(); ++call)
        digest.collectives.push_back({.name = 1,
                                      .ordinal = ordinal++,
                                      .begin_ns = Ns(line.calls[call].arrival + offset),
                                      .end_ns = Ns(line.calls[call].end + offset),
                                      .kind = digest::CollectiveKind::kAllReduce});
      if (step >= first) digest.steps.push_back(StepOf(worker, step, offset));
    }
    digest.end_ns = Ns(timelines_[worker].back().end + offset);
    return digest;
  }

  digest::Step StepOf(std::size_t worker, std::size_t step, double offset) const {
    const Timeline& line = timelines_[worker][step];
    digest::Step result{.number = static_cast<std::int64_t>(100 + step),
                        .begin_ns = Ns(line.begin + offset),
                        .end_ns = Ns(line.end + offset),
                        .followed = step + 1 < steps_,
                        .annotation_end_ns = Ns(line.end + offset)};
    double communication = 0;
    for (const Call& call : line.calls) communication += call.end - call.arrival;
    digest::Breakdown& time = result.time;
    time.span_ns = result.end_ns - result.begin_ns;
    time.compute_ns = Ns(PhaseMs(worker, step, kCompute, true));
    time.communication_ns = time.exposed_communication_ns = Ns(communication);
    time.copies_ns = time.exposed_copies_ns = Ns(PhaseMs(worker, step, kCopies, true));
    time.idle_ns = time.span_ns - time.compute_ns - time.communication_ns - time.copies_ns;
    // What the trace tells of idle time falls a little short of it.
    result.host.input_ns = Ns(PhaseMs(worker, step, kInput, true));
    result.host.input_stall_ns = Ns(0.97 * PhaseMs(worker, step, kInput, true));
    result.host.host_bound_ns = Ns(0.95 * PhaseMs(worker, step, kHost, true));
    return result;
  }

  static std::int64_t Ns(double ms) { return std::llround(ms * 1e6); }

  const SyntheticJob job_;
  Dice dice_;
  const std::size_t steps_;
  std::vector<double> speed_{};
  std::vector<std::vector<Drawn>> drawn_{};  // By worker, then step.
  std::vector<double> transfers_{};          // By step, then collective.
  std::vector<std::vector<Timeline>> timelines_{};
};

}  // namespace

SimulatedJob Simulate(const SyntheticJob& job) { return Simulation(job).Run(); }

}  // namespace strobe
