// Which worker of its job a pod is. Pure.
//
// What is believed, in this order:
//   1. strobe.dev/rank, an annotation or label: what the user says.
//   2. The training container's own environment: RANK, NODE_RANK, PET_NODE_RANK, JAX_PROCESS_ID,
//      PROCESS_ID, TPU_WORKER_ID with MEGASCALE_SLICE_ID. It is what the process itself goes by.
//   3. What the job's controller wrote on the pods, put together to a number of the whole job:
//      JobSet, LeaderWorkerSet, Kubeflow, Job, StatefulSet.
// One kind of evidence decides for all pods of a capture, because numbers of different kinds do not
// count the same thing: the first that gives each pod a number of its own, else the one that
// numbers most of them. One that gives two pods the same number is not believed.
#pragma once
#include <string_view>
#include <vector>

#include "operator/core/job_shape.h"
#include "operator/core/pod.h"

namespace strobe {

// Whether ContainerInfo::env should have this variable.
bool IsRankVariable(std::string_view name);

struct PodRank {
  int rank = -1;          // -1 = not known; no two pods have the same.
  bool replaced = false;  // It is going away or has ended, and another pod has its number now.
};

// Of each pod. `container` is whose environment counts; empty = the first that trains. `shape` may
// be null.
std::vector<PodRank> AssignRanks(const std::vector<const PodInfo*>& pods,
                                 const std::string& container, const JobShape* shape);

// A pod of a role that only coordinates, such as a Ray head, MPI's launcher or a parameter server.
bool OnlyCoordinates(const PodInfo& pod);

}  // namespace strobe
