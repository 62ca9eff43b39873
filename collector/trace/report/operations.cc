#include "collector/trace/report/operations.h"

#include <algorithm>
#include <numeric>

#include "common/base/enum_names.h"
#include "common/base/strings.h"

namespace strobe::report {
namespace {

// Sets the members of each communicator to the workers that called anything on it.
void FindMembers(Job& job) {
  std::vector<std::vector<bool>> called(job.communicators.size());
  for (const JobStep& step : job.steps) {
    for (const Operation& operation : step.operations) {
      if (operation.collective == kAlone) continue;
      auto& workers = called[step.collectives[operation.collective].communicator];
      workers.resize(job.workers.size());
      workers[operation.worker] = true;
    }
  }
  for (std::size_t i = 0; i < called.size(); ++i) {
    job.communicators[i].members.clear();
    for (std::uint32_t worker = 0; worker < called[i].size(); ++worker) {
      if (called[i][worker]) job.communicators[i].members.push_back(worker);
    }
  }
}

// The workers that called each collective of the step.
std::vector<std::vector<std::uint32_t>> CallersOf(const JobStep& step) {
  std::vector<std::vector<std::uint32_t>> callers(step.collectives.size());
  for (const Operation& operation : step.operations) {
    if (operation.collective != kAlone) callers[operation.collective].push_back(operation.worker);
  }
  for (std::vector<std::uint32_t>& workers : callers) std::sort(workers.begin(), workers.end());
  return callers;
}

}  // namespace

std::string_view CauseName(Cause cause) {
  static constexpr EnumNames<Cause, 6> kNames({{Cause::kCompute, "compute"},
                                               {Cause::kInput, "input"},
                                               {Cause::kHost, "host"},
                                               {Cause::kCopies, "copies"},
                                               {Cause::kGarbageCollection, "garbage collection"},
                                               {Cause::kOther, "other"}});
  return kNames.Of(cause, "other");
}

std::int64_t WorkerStep::OwnTotal() const {
  return std::accumulate(own_ns.begin(), own_ns.end(), std::int64_t{0});
}

void JobStep::Add(Operation operation, std::span<const std::uint32_t> after_these) {
  operation.first_after = static_cast<std::uint32_t>(after.size());
  operations.push_back(operation);
  after.insert(after.end(), after_these.begin(), after_these.end());
}

std::span<const std::uint32_t> JobStep::After(std::size_t index) const {
  const std::size_t first = operations[index].first_after;
  const std::size_t end =
      index + 1 < operations.size() ? operations[index + 1].first_after : after.size();
  return std::span(after).subspan(first, end - first);
}

void CompareCalls(Job& job) {
  FindMembers(job);
  job.mismatches.clear();
  job.mismatch_count = 0;
  for (const JobStep& step : job.steps) {
    std::vector<bool> present(job.workers.size());
    for (const WorkerStep& worker : step.workers) present[worker.worker] = true;
    const auto callers = CallersOf(step);
    for (std::size_t i = 0; i < step.collectives.size(); ++i) {
      const Collective& collective = step.collectives[i];
      CallMismatch mismatch{.step = step.number,
                            .communicator = collective.communicator,
                            .type = collective.type,
                            .ordinal = collective.ordinal,
                            .members = callers[i].size()};
      for (const std::uint32_t member : job.communicators[collective.communicator].members) {
        if (present[member] && !std::binary_search(callers[i].begin(), callers[i].end(), member))
          mismatch.missing.push_back(member);
      }
      if (mismatch.missing.empty()) continue;
      ++job.mismatch_count;
      if (job.mismatches.size() < kMaxMismatches) job.mismatches.push_back(std::move(mismatch));
    }
  }
}

std::string NameOf(const JobWorker& worker) {
  return worker.rank ? StrCat("rank ", *worker.rank) : worker.name;
}

}  // namespace strobe::report
