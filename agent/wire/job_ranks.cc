#include "agent/wire/job_ranks.h"

#include <cstdlib>
#include <initializer_list>

namespace strobe::wire {
namespace {

// The number that `text` is; -1 if it is none or has more than nine digits.
std::int32_t NumberOf(const char* text) {
  constexpr int kMaxDigits = 9;
  std::int32_t number = 0;
  int digits = 0;
  for (; text != nullptr && *text >= '0' && *text <= '9' && digits < kMaxDigits; ++text, ++digits)
    number = number * 10 + (*text - '0');
  return digits > 0 && *text == '\0' ? number : -1;
}

std::int32_t FirstNumber(std::initializer_list<const char*> variables) {
  for (const char* name : variables) {
    if (const std::int32_t number = NumberOf(std::getenv(name)); number >= 0) return number;
  }
  return -1;
}

}  // namespace

JobRanks OwnJobRanks() {
  return {.rank = FirstNumber(
              {"RANK", "JAX_PROCESS_ID", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "TPU_WORKER_ID"}),
          .local_rank = FirstNumber({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}),
          .world_size = FirstNumber(
              {"WORLD_SIZE", "JAX_NUM_PROCESSES", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"})};
}

}  // namespace strobe::wire
