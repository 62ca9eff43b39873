// What strobe._inproc calls in libstrobe_agent.so.
#include "agent/evidence/evidence_thread.h"

#define STROBE_EXPORT extern "C" __attribute__((visibility("default")))

// Both return null, or why there is nothing. The first is called without the interpreter's lock,
// the second with it.
STROBE_EXPORT const char* strobe_evidence_start(const char* directory, const char* stem,
                                                int minor) {
  return strobe::agent::StartEvidence(directory, stem, minor);
}
STROBE_EXPORT const char* strobe_evidence_check(const char* function) {
  return strobe::agent::CheckStacks(function);
}
STROBE_EXPORT void strobe_evidence_position(int rank, int local_rank, int world_size,
                                            int has_groups) {
  strobe::agent::TellPosition({.rank = rank,
                               .local_rank = local_rank,
                               .world_size = world_size,
                               .has_groups = has_groups != 0});
}
STROBE_EXPORT void strobe_evidence_end() { strobe::agent::EndEvidence(); }
