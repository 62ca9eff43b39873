// The rank of a pod: its number among the workers of its job. Pure.
//
// Kinds of evidence, in this order:
//   1. strobe.dev/rank, as an annotation or label: set by the user.
//   2. The environment of the training container: RANK, NODE_RANK, PET_NODE_RANK, JAX_PROCESS_ID,
//      PROCESS_ID, TPU_WORKER_ID with MEGASCALE_SLICE_ID. The process itself uses these.
//   3. Labels and annotations by the job's controller, combined into one number for the whole job:
//      JobSet, Volcano, LeaderWorkerSet, Kubeflow, Job, StatefulSet.
// One kind of evidence numbers all pods of a capture, because numbers of different kinds do not
// count the same thing. It is the first kind that gives every pod a number, else the kind that
// numbers most pods. A kind that gives two pods the same number is not used.
#pragma once
#include <string_view>
#include <vector>

#include "operator/job/pod.h"
#include "operator/job/shape.h"

namespace strobe::job {

// Whether ContainerInfo::env should contain this variable.
bool IsRankVariable(std::string_view name);

// Whether a label or annotation of a pod with this key tells its rank or its role.
bool IsRankKey(std::string_view key);

struct PodRank {
  int rank = -1;          // -1 = not known. No two pods have the same rank.
  bool replaced = false;  // The pod is ending or has ended, and another pod has its rank now.
};

// The rank of each of `pods`, in their order. Environment variables are read from `container`;
// empty = from the first container that trains. `shape` may be null.
std::vector<PodRank> AssignRanks(const std::vector<const PodInfo*>& pods,
                                 const std::string& container, const Shape* shape);

// How many processes of the job a container of the pod runs: what the annotation
// strobe.dev/processes says, or else the container's command; at least 1. `container` as above.
std::size_t ProcessesOf(const PodInfo& pod, const std::string& container);

// How many processes of the job must be found in the pod, among those of `container`, or of all
// containers if it is empty. The annotation counts, or else a command that is clear.
struct ExpectedProcesses {
  std::size_t count = 0;  // 0 = not known.
  bool annotated = false;
};
ExpectedProcesses ExpectedProcessesOf(const PodInfo& pod, const std::string& container);

// Whether the pod's role is to coordinate, not to train: a Ray head, MPI's launcher, a parameter
// server. What the shape says of the role counts first; it may be null.
bool OnlyCoordinates(const PodInfo& pod, const Shape* shape);

}  // namespace strobe::job
