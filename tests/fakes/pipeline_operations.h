// Operations of a job that trains with pipeline and data parallelism, as its framework logs them:
// forward and backward passes of microbatches, transfers between stages, collectives of replicas.
// The kinds are those of Megatron-LM's schedule and of the published straggler traces that
// docs/explanation/stragglers.md names.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/trace/report/operations.h"

namespace strobe::report {

enum class PipelineKind : std::uint8_t {
  kParamsAllGather,
  kForward,
  kBackward,
  kForwardSend,
  kForwardReceive,
  kBackwardSend,
  kBackwardReceive,
  kGarbageCollection,
  kLayernormAllReduce,
  kEmbeddingAllReduce,
  kGradsReduceScatter,
  kClipGrads,
  kOptimizer,
};
inline constexpr std::size_t kPipelineKinds = 13;

// The name of the type in a report. A send and its receive are of one type, because they are two
// ends of one transfer.
std::string_view TypeName(PipelineKind kind);

struct PipelineOperation {
  std::int64_t step = 0;
  std::uint32_t replica = 0, stage = 0;
  PipelineKind kind = PipelineKind::kForward;
  std::uint32_t ordinal = 0;  // Among those of this kind on this worker in this step.
  std::int64_t begin_ns = 0, duration_ns = 0;  // On a common clock.
};

// Makes a job of them. What an operation waits for, besides all members of its collective:
//   - the pass before it on the worker, in the order in which they began; the first waits for the
//     parameters
//   - a pass, for the receive with its ordinal; a send, for the pass with its ordinal
//   - transfers of one direction, for each other
//   - what follows the last pass (garbage collection, the collectives of gradients in the order of
//     the enumeration, clipping, the optimizer), for the operation before it
// Parameters and gradients are exchanged by the replicas of a stage, the gradients of embeddings by
// the stages of a replica, clipping by all workers. Layer norms wait for nobody: their group has
// one worker here. InvalidArgument for no operations, more than kMaxPipelineOperations, or
// times that are not possible.
absl::StatusOr<Job> MakePipelineJob(std::span<const PipelineOperation> operations);

inline constexpr std::size_t kMaxPipelineOperations = 4'000'000;

}  // namespace strobe::report
