#include "tests/fakes/pipeline_operations.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::report {
namespace {

using Kind = PipelineKind;

// What follows the last pass, in this order.
constexpr Kind kEnd[] = {Kind::kGarbageCollection,  Kind::kLayernormAllReduce,
                         Kind::kEmbeddingAllReduce, Kind::kGradsReduceScatter,
                         Kind::kClipGrads,          Kind::kOptimizer};

// So that differences of times do not overflow; about 73 years.
constexpr std::int64_t kFarPipelineNs = std::int64_t{1} << 61;

Cause CauseOf(Kind kind) {
  return kind == Kind::kGarbageCollection ? Cause::kGarbageCollection : Cause::kCompute;
}

bool Communicates(Kind kind) {
  return kind != Kind::kForward && kind != Kind::kBackward && kind != Kind::kGarbageCollection &&
         kind != Kind::kOptimizer;
}

// The communicator of an operation; empty for one that waits for nobody.
std::string CommunicatorOf(const PipelineOperation& operation) {
  const auto transfer = [&](std::uint32_t from, std::uint32_t to) {
    return StrCat("replica ", operation.replica, ", stage ", from, " to ", to);
  };
  switch (operation.kind) {
    case Kind::kParamsAllGather:
    case Kind::kGradsReduceScatter:
      return StrCat("stage ", operation.stage);
    case Kind::kEmbeddingAllReduce:
      return StrCat("replica ", operation.replica);
    case Kind::kClipGrads:
      return "all";
    case Kind::kForwardSend:
      return transfer(operation.stage, operation.stage + 1);
    case Kind::kForwardReceive:
      return transfer(operation.stage - 1, operation.stage);
    case Kind::kBackwardSend:
      return transfer(operation.stage, operation.stage - 1);
    case Kind::kBackwardReceive:
      return transfer(operation.stage + 1, operation.stage);
    default:
      return "";
  }
}

// The operations of one worker in one step, by their index in the step.
class WorkerSchedule {
 public:
  void Put(Kind kind, std::uint32_t index) { of_[static_cast<std::size_t>(kind)].push_back(index); }
  void PutPass(Kind kind, std::uint32_t index) {
    Put(kind, index);
    passes_.push_back(index);
  }

  // What each operation of the worker waits for on it, as pairs of an operation and an earlier one.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> Waits() const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> waits;
    const auto wait = [&](std::uint32_t later, std::uint32_t earlier) {
      waits.emplace_back(later, earlier);
    };
    const auto in_order = [&](const std::vector<std::uint32_t>& list) {
      for (std::size_t i = 1; i < list.size(); ++i) wait(list[i], list[i - 1]);
    };
    in_order(passes_);
    if (!passes_.empty()) {
      for (const std::uint32_t gather : Of(Kind::kParamsAllGather)) wait(passes_.front(), gather);
    }
    const auto pair_up = [&](Kind later, Kind earlier) {
      const auto &a = Of(later), &b = Of(earlier);
      for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) wait(a[i], b[i]);
    };
    for (const auto& [pass, receive, send] :
         {std::tuple(Kind::kForward, Kind::kForwardReceive, Kind::kForwardSend),
          std::tuple(Kind::kBackward, Kind::kBackwardReceive, Kind::kBackwardSend)}) {
      pair_up(pass, receive);
      pair_up(send, pass);
      in_order(Of(receive));
      in_order(Of(send));
    }
    std::vector<std::uint32_t> before;
    if (!passes_.empty()) before.push_back(passes_.back());
    if (!Of(Kind::kBackwardSend).empty()) before.push_back(Of(Kind::kBackwardSend).back());
    for (const Kind kind : kEnd) {
      for (const std::uint32_t index : Of(kind)) {
        for (const std::uint32_t earlier : before) wait(index, earlier);
        before = {index};
      }
    }
    return waits;
  }

 private:
  const std::vector<std::uint32_t>& Of(Kind kind) const {
    return of_[static_cast<std::size_t>(kind)];
  }

  std::array<std::vector<std::uint32_t>, kPipelineKinds> of_{};
  std::vector<std::uint32_t> passes_{};  // Forward and backward, in the order of time.
};

class JobMaker {
 public:
  explicit JobMaker(std::span<const PipelineOperation> operations) {
    for (const PipelineOperation& operation : operations) {
      workers_.try_emplace({operation.stage, operation.replica}, 0);
    }
    for (auto& [place, index] : workers_) {
      index = static_cast<std::uint32_t>(job_.workers.size());
      job_.workers.push_back({.name = StrCat("replica ", place.second, ", stage ", place.first),
                              .stage = place.first,
                              .clock_error_ns = 0});
    }
    communicator_of_.resize(job_.workers.size());
  }

  // `operations` are those of one step, by begin.
  void AddStep(std::span<const PipelineOperation> operations) {
    JobStep step{.number = operations.front().step};
    std::map<std::uint32_t, WorkerStep> times;
    std::map<std::uint32_t, WorkerSchedule> schedules;
    std::vector<Operation> placed;
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> collectives;
    for (const PipelineOperation& from : operations) {
      const auto index = static_cast<std::uint32_t>(placed.size());
      Operation operation{.begin_ns = from.begin_ns,
                          .end_ns = AddSaturated(from.begin_ns, from.duration_ns),
                          .worker = workers_.at({from.stage, from.replica}),
                          .type = TypeOf(from.kind)};
      if (const std::uint32_t communicator = IndexOfCommunicator(from, operation.worker);
          communicator != kNobody) {
        const auto [entry, fresh] =
            collectives.try_emplace({communicator, operation.type, from.ordinal},
                                    static_cast<std::uint32_t>(step.collectives.size()));
        if (fresh) step.collectives.push_back({communicator, operation.type, from.ordinal});
        operation.collective = entry->second;
      }
      const bool pass = from.kind == Kind::kForward || from.kind == Kind::kBackward;
      WorkerSchedule& schedule = schedules[operation.worker];
      pass ? schedule.PutPass(from.kind, index) : schedule.Put(from.kind, index);
      Count(from, operation, times);
      placed.push_back(operation);
    }
    for (const auto& [worker, time] : times) step.workers.push_back(time);
    std::vector<std::vector<std::uint32_t>> after(placed.size());
    for (const auto& [worker, schedule] : schedules) {
      for (const auto& [later, earlier] : schedule.Waits()) after[later].push_back(earlier);
    }
    for (std::size_t i = 0; i < placed.size(); ++i) step.Add(placed[i], after[i]);
    job_.steps.push_back(std::move(step));
  }

  Job Finish() && {
    CompareCalls(job_);
    return std::move(job_);
  }

 private:
  static void Count(const PipelineOperation& from, const Operation& operation,
                    std::map<std::uint32_t, WorkerStep>& times) {
    const auto [entry, fresh] =
        times.try_emplace(operation.worker, WorkerStep{.worker = operation.worker,
                                                       .begin_ns = operation.begin_ns,
                                                       .end_ns = operation.end_ns});
    WorkerStep& time = entry->second;
    time.end_ns = std::max(time.end_ns, operation.end_ns);
    if (Communicates(from.kind)) return;
    std::int64_t& own = time.own_ns[static_cast<std::size_t>(CauseOf(from.kind))];
    own = AddSaturated(own, from.duration_ns);
  }

  // Texts are compared once per kind (and worker), because a job has many operations of each.
  std::uint32_t TypeOf(Kind kind) {
    std::uint32_t& type = type_of_[static_cast<std::size_t>(kind)];
    if (type == kNotYet) {
      const auto [entry, fresh] =
          types_.try_emplace(TypeName(kind), static_cast<std::uint32_t>(job_.types.size()));
      if (fresh) job_.types.push_back({std::string(TypeName(kind)), Communicates(kind)});
      type = entry->second;
    }
    return type;
  }

  // The index of the operation's communicator; kNobody if it waits for nobody.
  std::uint32_t IndexOfCommunicator(const PipelineOperation& operation, std::uint32_t worker) {
    std::uint32_t& communicator =
        communicator_of_[worker].of_kind[static_cast<std::size_t>(operation.kind)];
    if (communicator == kNotYet) {
      const std::string name = CommunicatorOf(operation);
      communicator = name.empty() ? kNobody : IndexOf(name);
    }
    return communicator;
  }

  std::uint32_t IndexOf(const std::string& name) {
    const auto [entry, fresh] =
        communicators_.try_emplace(name, static_cast<std::uint32_t>(job_.communicators.size()));
    if (fresh) job_.communicators.push_back({.name = name});
    return entry->second;
  }

  static constexpr std::uint32_t kNotYet = ~0u, kNobody = kNotYet - 1;
  struct IndexByKind {
    IndexByKind() { of_kind.fill(kNotYet); }
    std::array<std::uint32_t, kPipelineKinds> of_kind{};
  };

  Job job_{};
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> workers_{};  // Stage, replica.
  std::map<std::string_view, std::uint32_t> types_{};
  std::map<std::string, std::uint32_t> communicators_{};
  std::array<std::uint32_t, kPipelineKinds> type_of_ = IndexByKind().of_kind;
  std::vector<IndexByKind> communicator_of_{};  // By worker.
};

}  // namespace

std::string_view TypeName(PipelineKind kind) {
  switch (kind) {
    case Kind::kParamsAllGather:
      return "params-all-gather";
    case Kind::kForward:
      return "forward-compute";
    case Kind::kBackward:
      return "backward-compute";
    case Kind::kForwardSend:
    case Kind::kForwardReceive:
      return "forward-pp-comm";
    case Kind::kBackwardSend:
    case Kind::kBackwardReceive:
      return "backward-pp-comm";
    case Kind::kGarbageCollection:
      return "gc";
    case Kind::kLayernormAllReduce:
      return "layernorm-grads-all-reduce";
    case Kind::kEmbeddingAllReduce:
      return "embedding-grads-all-reduce";
    case Kind::kGradsReduceScatter:
      return "grads-reduce-scatter";
    case Kind::kClipGrads:
      return "optimizer-clip-main-grad";
    case Kind::kOptimizer:
      break;
  }
  return "optimizer";
}

absl::StatusOr<Job> MakePipelineJob(std::span<const PipelineOperation> operations) {
  if (operations.empty()) return absl::InvalidArgumentError("the job has no operations");
  if (operations.size() > kMaxPipelineOperations)
    return absl::InvalidArgumentError("the job has too many operations");
  std::vector<PipelineOperation> sorted(operations.begin(), operations.end());
  for (const PipelineOperation& operation : sorted) {
    if (operation.duration_ns < 0 || operation.begin_ns < -kFarPipelineNs ||
        operation.begin_ns > kFarPipelineNs)
      return absl::InvalidArgumentError("the times of an operation are not possible");
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.begin_ns, a.stage, a.replica, a.kind, a.ordinal) <
           std::tie(b.step, b.begin_ns, b.stage, b.replica, b.kind, b.ordinal);
  });
  JobMaker maker(sorted);
  for (std::size_t begin = 0; begin < sorted.size();) {
    std::size_t end = begin;
    while (end < sorted.size() && sorted[end].step == sorted[begin].step) ++end;
    maker.AddStep(std::span(sorted).subspan(begin, end - begin));
    begin = end;
  }
  return std::move(maker).Finish();
}

}  // namespace strobe::report
