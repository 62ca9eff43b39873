// What the workers of a job did in each step, on one clock. This is the form that all analyses of
// this folder read; digest_operations.h makes it of digests.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collector/trace/report/parallel_groups.h"
#include "collector/trace/report/worker_time.h"

namespace strobe::report {

// What a worker's own time went into, which is also why it can be late.
enum class Cause : std::uint8_t { kCompute, kInput, kHost, kCopies, kGarbageCollection, kOther };
inline constexpr std::size_t kCauses = 6;
// "compute", "input", "host", "copies", "garbage collection" or "other".
std::string_view CauseName(Cause cause);

struct JobWorker {
  std::string name{};
  std::optional<std::uint32_t> rank{};
  // Workers of one stage do the same work on other data, so that they are each other's measure.
  std::uint32_t stage = 0;
  bool in_pipeline = false;  // A group of the worker tells its stage; otherwise it is 0.
  // Half-width of the error interval of the worker's clock, in ns; nullopt: not measured.
  std::optional<std::int64_t> clock_error_ns{};
  // False: the trace does not tell at which time it began. Its times are on no common clock, so
  // that its waits for others, and theirs for it, are not known.
  bool on_common_clock = true;
  // False where the worker's trace cannot tell this kind of time, so that a zero means nothing.
  std::array<bool, kCauses> tells{true, true, true, true, true, true};
  WorkerTime time{};
};

// Durations of operations of one type are compared with each other.
struct OperationType {
  std::string name{};
  bool communication = false;  // A collective, or a transfer between two workers.
  // A broadcast, reduce, gather or scatter: a member that needs nothing from the others, such as
  // the root of a broadcast, goes on before they have come.
  bool rooted = false;

  bool operator==(const OperationType&) const = default;
};

inline constexpr std::uint32_t kAlone = 0xffffffff;

struct Operation {
  std::int64_t begin_ns = 0, end_ns = 0;  // On the common clock.
  std::uint32_t worker = 0;               // In Job::workers.
  std::uint32_t type = 0;                 // In Job::types.
  // In JobStep::collectives: all operations of one collective end only after the last of them began
  // (also a send and its receive), but for those of a rooted type. kAlone: it waits for nobody.
  std::uint32_t collective = kAlone;
  std::uint32_t first_after = 0;  // See JobStep::After.
};

// One call that several workers make together.
struct Collective {
  std::uint32_t communicator = 0;  // In Job::communicators.
  std::uint32_t type = 0;          // In Job::types.
  std::uint32_t ordinal = 0;  // Counts the calls of this type on this communicator in the step.
};

// The time of one worker in a step.
struct WorkerStep {
  std::uint32_t worker = 0;
  std::int64_t begin_ns = 0, end_ns = 0;  // On the common clock.
  // The worker's own time by what it went into, in ns: all of the step but waiting for other
  // workers and transfers. It is measured on the worker's clock alone, so that no clock's offset
  // matters.
  std::array<std::int64_t, kCauses> own_ns{};

  std::int64_t OwnTotal() const;
};

struct JobStep {
  std::int64_t number = 0;
  std::vector<WorkerStep> workers{};  // Each worker at most once.
  std::vector<Collective> collectives{};
  std::vector<Operation> operations{};
  std::vector<std::uint32_t> after{};

  // Appends an operation that begins when those in `after` have ended. They may be appended later.
  void Add(Operation operation, std::span<const std::uint32_t> after_these);
  // The operations, by number, that must end before operation `index` begins.
  std::span<const std::uint32_t> After(std::size_t index) const;
};

struct Communicator {
  std::string name{};
  std::vector<std::uint32_t> members{};  // Workers that called anything on it, in ascending order.
  GroupKind kind = GroupKind::kUnknown;
  bool named = false;  // Its name tells the kind; otherwise it follows from what is usual.
  // Workers that called anything on it, also what is not joined, and their calls and steps.
  std::size_t callers = 0, calls = 0, worker_steps = 0;
  double in_calls_ns = 0;  // The sum of the calls' durations.
};

// A difference between the calls of the workers of one communicator.
struct CallMismatch {
  std::int64_t step = 0;
  std::uint32_t communicator = 0, type = 0, ordinal = 0;
  std::vector<std::uint32_t> missing{};  // Members that did not make the call but were in the step.
  std::size_t members = 0;               // How many made it.
};

struct Job {
  std::vector<JobWorker> workers{};
  std::vector<OperationType> types{};
  std::vector<Communicator> communicators{};
  std::vector<JobStep> steps{};            // By number.
  std::vector<CallMismatch> mismatches{};  // At most kMaxMismatches.
  std::size_t mismatch_count = 0;          // Counts those that are left out, too.
  // What is not known because the traces do not tell it, in human-readable sentences.
  std::vector<std::string> unknown{};
};
inline constexpr std::size_t kMaxMismatches = 20;

// Fills in Communicator::members and the mismatches from the operations.
void CompareCalls(Job& job);

// "rank 5" or, where the rank is not known, the worker's name.
std::string NameOf(const JobWorker& worker);

}  // namespace strobe::report
