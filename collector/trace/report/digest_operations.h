// Merges the digests of a job's workers into steps on one clock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collector/trace/digest/digest.h"
#include "collector/trace/report/operations.h"

namespace strobe::report {

// The group in which `id` is, of "{{0,1},{2,3}}" or the short form "[4,2]<=[2,4]T(1,0)": the
// numbers from 0 on in an array of the sizes behind "<=", with its dimensions in the order of T,
// read as so many groups of so many. Empty if the text is none of it, was cut before the group, or
// if the group has more than 65,536 numbers.
std::vector<std::uint32_t> ReplicaGroupOf(std::string_view groups, std::uint32_t id);

// The communicator with the ranks of the worker's own group, which XLA does not tell by itself.
// They are known where each process has one device, so that a rank is the number of a partition;
// other communicators are returned as they are.
digest::Communicator WithOwnGroup(const digest::Digest& digest,
                                  const digest::Communicator& communicator);

struct MergeLimits {
  // Calls of collectives that are kept; a step of a worker counts as two. Beyond it the last steps
  // of all workers are left out, and Job::unknown says so. A call takes about 150 bytes until the
  // report is finished.
  std::size_t calls = 1'000'000;
  std::size_t steps_per_worker = 10'000;
};

// Takes one digest after the other, so that only what the report needs of it stays in memory.
//
// Steps are those of the loop that takes most of the time of all workers, and are joined by number.
// A step that no other step follows is shorter than it would be otherwise; it is left out unless
// its own annotation tells its end (WorkerStepTime::whole), or the worker has no other.
//
// Calls of collectives are joined by communicator, name and order. Workers that began to record at
// different times count from different calls: the difference is found from the first calls of
// common steps, and where these disagree, from the times at which calls ended. The program's own
// sequence numbers replace the order where all calls have them. A call belongs to the step to which
// the worker with most calls counts it.
//
// What a worker does between the end of one call and the begin of the next is one local operation.
// The first of a step begins with the end of the call before it.
class DigestMerger {
 public:
  explicit DigestMerger(const MergeLimits& limits = {});
  ~DigestMerger();
  DigestMerger(const DigestMerger&) = delete;
  DigestMerger& operator=(const DigestMerger&) = delete;

  void Add(const digest::Digest& digest);
  // `expected_workers`: how many the job has; 0 = not known. To be called once.
  Job Finish(std::size_t expected_workers = 0);

 private:
  class Merged;
  const std::unique_ptr<Merged> merged_;
};

}  // namespace strobe::report
