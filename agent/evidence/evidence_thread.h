// The thread strobe-evidence, which sleeps until the sidecar asks what this process is doing, and
// then writes it into files of the agent directory:
//
//   <stem>.evidence   orders, a beat, and the process's position in its job (agent/wire)
//   <stem>.a.stacks   Python stacks of all threads, as StacksText writes them
//   <stem>.a.fr       the Flight Recorder's dump
//   <stem>.b.stacks, <stem>.b.fr   a second look, about a second later
//
// It never takes the interpreter's lock, and sends no signal.
#pragma once
#include <cstdint>

namespace strobe::agent {

// Starts the thread of this process unless it runs. Returns null, or why there is none. `minor` is
// that of Python 3.minor, and 0 refuses stacks. Stacks are refused until CheckStacks.
const char* StartEvidence(const char* directory, const char* stem, int minor);
// The caller holds the interpreter's lock and is in a Python function with this name, which calls
// this through C. Reads its own stack: null if it is right, and from then on stacks are read. A
// layout that is wrong for this build of Python would hardly pass.
const char* CheckStacks(const char* function);
// Tells the process's position in its job; -1 where it is not known. `has_groups`: it has joined a
// process group, without which no recorder is asked, because a recorder that is asked too early
// stays off.
struct JobPosition {
  std::int32_t rank = -1, local_rank = -1, world_size = -1;
  bool has_groups = false;
};
void TellPosition(const JobPosition& place);
// The process's exit handlers run.
void EndEvidence();

}  // namespace strobe::agent
