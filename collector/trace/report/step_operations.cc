#include "collector/trace/report/step_operations.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "common/base/saturated.h"
#include "common/base/strings.h"

namespace strobe::report {
namespace {

constexpr std::uint32_t kNoStep = 0xffffffff;
constexpr std::size_t kMaxTypes = 50'000;

// Where a call of the reference belongs.
struct CallPosition {
  std::uint32_t step = kNoStep;  // In Job::steps.
  std::uint32_t in_step = 0;     // Counts the calls of its key in the step.
  std::uint32_t collective = kAlone;
  std::uint32_t type = 0, type_before = 0;  // The types of the call and of the work before it.
};

struct PlacedCall {
  const CallPosition* position = nullptr;
  std::int64_t begin_ns = 0, end_ns = 0;
};

class OperationMaker {
 public:
  OperationMaker(std::span<const CallList> calls, std::span<const CallKey> keys,
                 std::span<const CallOrder> orders, Job& job)
      : calls_(calls), keys_(keys), orders_(orders), job_(job), positions_(keys.size()) {
    for (std::uint32_t i = 0; i < job.steps.size(); ++i) step_of_.emplace(job.steps[i].number, i);
    for (std::uint32_t key = 0; key < keys.size(); ++key) PlaceReference(key);
  }

  // Adds the operations of one worker. Returns how many of its calls have no place.
  std::size_t AddWorker(std::uint32_t worker) {
    std::size_t unmatched = 0;
    std::vector<PlacedCall> placed;
    for (const MergedCall& call : calls_[worker]) {
      const auto place = PlaceOf(worker, call);
      if (!place)
        ++unmatched;
      else if (place->step != kNoStep)
        placed.push_back({place, call.begin_ns, call.end_ns});
    }
    std::sort(placed.begin(), placed.end(), [](const PlacedCall& a, const PlacedCall& b) {
      return std::tie(a.begin_ns, a.end_ns, a.position->type) <
             std::tie(b.begin_ns, b.end_ns, b.position->type);
    });
    std::vector<std::int64_t> step_begin(job_.steps.size(), kUnknownBegin);
    for (std::uint32_t i = 0; i < job_.steps.size(); ++i) {
      const auto& workers = job_.steps[i].workers;
      const auto found = std::lower_bound(
          workers.begin(), workers.end(), worker,
          [](const WorkerStep& step, std::uint32_t index) { return step.worker < index; });
      if (found != workers.end() && found->worker == worker) step_begin[i] = found->begin_ns;
    }
    for (std::size_t i = 0; i < placed.size(); ++i) AddCall(worker, placed, i, step_begin);
    return unmatched;
  }

 private:
  static constexpr std::int64_t kUnknownBegin = std::numeric_limits<std::int64_t>::min();

  // Gives each call of the key's reference its place, and makes the collectives.
  void PlaceReference(std::uint32_t key) {
    const std::size_t reference = orders_[key].reference;
    if (reference >= calls_.size()) return;
    std::map<std::uint32_t, std::uint32_t> in_step;
    for (const MergedCall& call : CallsOf(calls_[reference], key)) {
      CallPosition& place = positions_[key].emplace_back();
      const auto step = step_of_.find(call.step);
      if (step == step_of_.end()) continue;
      place.step = step->second;
      place.in_step = in_step[place.step]++;
      place.type = TypeOf(key, place.in_step, /*communication=*/true);
      place.type_before = TypeOf(key, place.in_step, /*communication=*/false);
      if (!keys_[key].joined) continue;
      auto& collectives = job_.steps[place.step].collectives;
      place.collective = static_cast<std::uint32_t>(collectives.size());
      collectives.push_back(
          {.communicator = keys_[key].communicator, .type = place.type, .ordinal = place.in_step});
    }
  }

  const CallPosition* PlaceOf(std::uint32_t worker, const MergedCall& call) const {
    const CallOrder& order = orders_[call.key];
    const auto shift = order.shift.find(worker);
    if (shift == order.shift.end()) return nullptr;
    const auto reference = CallsOf(calls_[order.reference], call.key);
    const std::int64_t ordinal = AddSaturated(call.ordinal, -shift->second);
    const auto found =
        std::partition_point(reference.begin(), reference.end(),
                             [&](const MergedCall& other) { return other.ordinal < ordinal; });
    if (found == reference.end() || found->ordinal != ordinal) return nullptr;
    return &positions_[call.key][static_cast<std::size_t>(found - reference.begin())];
  }

  // The type of the calls with this name and place in the step, or of the work before them.
  std::uint32_t TypeOf(std::uint32_t key, std::uint32_t in_step, bool communication) {
    // Beyond the limit, all calls are of one type.
    const bool more = types_.size() >= kMaxTypes;
    const std::string name = more ? "more calls" : keys_[key].name;
    const bool rooted = !more && communication && keys_[key].rooted;
    if (more) in_step = 0;
    const auto [entry, fresh] = types_.try_emplace({name, in_step, communication},
                                                   static_cast<std::uint32_t>(job_.types.size()));
    if (fresh)
      job_.types.push_back(
          {StrCat(communication ? "" : "before ", name, " #", in_step + 1), communication, rooted});
    return entry->second;
  }

  // Adds the call and the worker's own work before it.
  void AddCall(std::uint32_t worker, const std::vector<PlacedCall>& placed, std::size_t index,
               const std::vector<std::int64_t>& step_begin) {
    const PlacedCall& call = placed[index];
    const CallPosition& place = *call.position;
    JobStep& step = job_.steps[place.step];
    const bool first = index == 0 || placed[index - 1].position->step != place.step;
    std::int64_t begin = step_begin[place.step];
    std::vector<std::uint32_t> after;
    if (first) {
      first_of_step_ = index;
      first_operation_ = step.operations.size();
      // What was done since the last call of the step before belongs to this step.
      if (index > 0 && placed[index - 1].position->step + 1 == place.step)
        begin = placed[index - 1].end_ns;
    } else {
      // Waits for the call that ended last before this one began. Calls that had not ended ran
      // beside this one.
      constexpr std::size_t kMaxBeside = 64;
      for (std::size_t i = index; i > first_of_step_ && index - i < kMaxBeside; --i) {
        const PlacedCall& earlier = placed[i - 1];
        if (earlier.end_ns > call.begin_ns || (!after.empty() && earlier.end_ns <= begin)) continue;
        begin = earlier.end_ns;
        after = {static_cast<std::uint32_t>(first_operation_ + 2 * (i - 1 - first_of_step_) + 1)};
      }
    }
    if (begin == kUnknownBegin || begin > call.begin_ns) begin = call.begin_ns;
    step.Add(
        {.begin_ns = begin, .end_ns = call.begin_ns, .worker = worker, .type = place.type_before},
        after);
    const auto local = static_cast<std::uint32_t>(step.operations.size() - 1);
    step.Add({.begin_ns = call.begin_ns,
              .end_ns = call.end_ns,
              .worker = worker,
              .type = place.type,
              .collective = place.collective},
             std::span(&local, 1));
  }

  const std::span<const CallList> calls_;
  const std::span<const CallKey> keys_;
  const std::span<const CallOrder> orders_;
  Job& job_;
  // For each call of each key's reference.
  std::vector<std::vector<CallPosition>> positions_;
  std::map<std::int64_t, std::uint32_t> step_of_{};
  std::map<std::tuple<std::string, std::uint32_t, bool>, std::uint32_t> types_{};
  // The first call and the first operation of the worker and step that are being added.
  std::size_t first_of_step_ = 0, first_operation_ = 0;
};

// Separates joined calls of which one ended before another began, beyond the clocks' errors: they
// cannot be the same call, unless it is a rooted one. Returns how many calls that were.
std::size_t SeparateImpossible(Job& job) {
  std::size_t impossible = 0;
  for (JobStep& step : job.steps) {
    constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max();
    std::vector<std::int64_t> last(step.collectives.size(), -kLatest);
    std::vector<std::int64_t> first_end(step.collectives.size(), kLatest);
    for (const Operation& operation : step.operations) {
      if (operation.collective == kAlone) continue;
      const auto error = job.workers[operation.worker].clock_error_ns;
      if (!error) continue;
      std::int64_t& begin = last[operation.collective];
      std::int64_t& end = first_end[operation.collective];
      begin = std::max(begin, AddSaturated(operation.begin_ns, -*error));
      end = std::min(end, AddSaturated(operation.end_ns, *error));
    }
    for (Operation& operation : step.operations) {
      if (operation.collective == kAlone ||
          last[operation.collective] <= first_end[operation.collective])
        continue;
      operation.collective = kAlone;
      if (!job.types[operation.type].rooted) ++impossible;
    }
  }
  return impossible;
}

}  // namespace

void AddStepOperations(std::span<const CallList> calls, std::span<const CallKey> keys,
                       std::span<const CallOrder> orders, Job& job, StepOperationCounts& counts) {
  OperationMaker maker(calls, keys, orders, job);
  for (std::uint32_t worker = 0; worker < calls.size(); ++worker)
    counts.unmatched += maker.AddWorker(worker);
  counts.impossible = SeparateImpossible(job);
}

}  // namespace strobe::report
