// What a group of ranks is for: which kind of parallelism it serves. Pure.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "collector/trace/digest/digest.h"

namespace strobe::report {

enum class GroupKind : std::uint8_t {
  kUnknown,
  kAll,       // All ranks of the job.
  kData,      // Each rank has other data, and the same work.
  kTensor,    // The ranks share each operation.
  kPipeline,  // The ranks are the stages of a pipeline, in their order.
  kExpert,    // The ranks hold the experts of a mixture.
  kSequence,  // The ranks share a sequence, or its context.
};
inline constexpr std::size_t kGroupKinds = 7;
// "data", "tensor", "pipeline", "expert", "sequence", "all ranks" or "unknown".
std::string_view GroupKindName(GroupKind kind);

// What the name of a communicator says: "1 mesh_tp" of PyTorch's DeviceMesh,
// "2 TENSOR_MODEL_PARALLEL_GROUP" of Megatron-LM, "0 default_pg". kUnknown if it says nothing, or
// several things at once, as "TENSOR_AND_DATA_PARALLEL_GROUP" does.
GroupKind GroupKindByName(std::string_view name);

// How often each kind of collective was called on a communicator, by CollectiveKind.
using CallKinds = std::array<std::size_t, 13>;

// How the ranks of a group lie among those of the job.
enum class RankOrder : std::uint8_t { kUnknown, kAll, kNeighbours, kApart };
RankOrder RankOrderOf(const digest::Communicator& communicator,
                      std::optional<std::uint32_t> world_size);

// What follows from the calls where names say nothing, as XLA's do not. It is what is usual and not
// certain: a group that only sends is a pipeline, one that exchanges all with all holds experts,
// neighbours share operations, because they have the fastest links, and ranks that lie apart share
// data.
GroupKind GroupKindByCalls(const CallKinds& calls, RankOrder order);

// The place of the worker in its pipeline; nullopt if no name of its groups tells of one.
std::optional<std::uint32_t> StageOf(const digest::Digest& digest);

}  // namespace strobe::report
