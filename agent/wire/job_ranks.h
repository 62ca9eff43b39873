// The place of this process in its job, as launchers write it into its environment. POSIX and the
// C++ standard library only; no exceptions.
#pragma once
#include <cstdint>

namespace strobe::wire {

// -1 where the environment does not tell it.
struct JobRanks {
  std::int32_t rank = -1;        // The number of the process in the job.
  std::int32_t local_rank = -1;  // Its number on its machine or in its pod.
  std::int32_t world_size = -1;  // The number of processes of the job.
};

// Reads the variables of torchrun, JAX, Open MPI, Slurm and TPU pods, in this order. The Python
// package reads the same ones (sdk/python/strobe/_inproc/process.py).
JobRanks OwnJobRanks();

}  // namespace strobe::wire
