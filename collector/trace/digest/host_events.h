// Reads what the threads of a worker did, line by line, each event once.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collector/trace/digest/collectives.h"
#include "collector/trace/digest/event_times.h"
#include "collector/trace/digest/launches.h"
#include "collector/trace/digest/nesting.h"
#include "collector/trace/digest/op_sums.h"
#include "collector/trace/digest/time_sweep.h"
#include "common/base/cancellation.h"

namespace strobe::digest {

// What is gathered from all planes.
struct Gathered {
  OpSums ops{};
  Names names{};
  Collectives collectives{names};
  Launches launches{};
  bool joins_launches = false;  // Some device's work names launches of its process.
  std::uint64_t events = 0;
  std::int64_t begin_ps = kMaxPs, end_ps = -kMaxPs;  // Span all events.

  void Extend(const Times& times) {
    ++events;
    begin_ps = std::min(begin_ps, times.begin_ps);
    end_ps = std::max(end_ps, times.end_ps);
  }

  const Cancellation* stop = nullptr;  // May be null.
  std::uint32_t reads = 0;
  // To be called for each event that is read. Cancelled if somebody asked to stop.
  absl::Status CheckStop() {
    constexpr std::uint32_t kEvery = 1 << 16;
    if (++reads % kEvery != 0 || stop == nullptr || !stop->cancelled()) return absl::OkStatus();
    return absl::CancelledError("the computation was stopped");
  }
};

struct FoundStep {
  std::string_view loop{};
  std::int64_t number = 0;
  Times times{};
  std::uint32_t line = 0;  // Steps of one line are of one thread.
  Batch batch{};
};

// Work of a runtime that computes on the host, in 16 bytes.
class HostWork {
 public:
  HostWork(const Times& times, WorkKind kind)
      : begin_and_kind_(times.begin_ps * 4 + static_cast<std::int64_t>(kind)),
        end_ps_(times.end_ps) {}
  Times times() const { return {begin_and_kind_ >> 2, end_ps_}; }
  WorkKind kind() const { return static_cast<WorkKind>(begin_and_kind_ & 3); }
  // Sorts by begin; of equal begins, longer work first.
  bool operator<(const HostWork& other) const {
    const Times a = times(), b = other.times();
    return a.begin_ps != b.begin_ps ? a.begin_ps < b.begin_ps : a.end_ps > b.end_ps;
  }

 private:
  std::int64_t begin_and_kind_, end_ps_;
};

class HostEvents {
 public:
  static constexpr std::size_t kMaxSteps = 16384;
  // Waits for input, and garbage collections, that are kept. Further ones are not seen.
  static constexpr std::size_t kMaxSpans = std::size_t{1} << 17;

  // `computes`: the worker has no device, so that work of runtimes on the host is gathered.
  HostEvents(Gathered& gathered, bool computes) : gathered_(gathered), computes_(computes) {}

  absl::Status Read(const xplane::Plane& plane);
  // Call it once after the last plane.
  void Finish();

  std::vector<FoundStep>& steps() { return steps_; }  // Sorted by begin.
  std::uint64_t steps_left_out() const { return steps_left_out_; }
  // United. Input and collection are those on the threads that tell steps or, if none does, on all.
  // Calls are those of all threads, less what the threads with steps did meanwhile. Without a
  // device, they are work instead.
  const HostSpans& spans() const { return spans_; }
  // Returns the work of each line that has some, sorted by begin.
  const std::vector<std::vector<HostWork>>& work() const { return work_; }

 private:
  struct SpansOfLines {
    Spans all{}, with_steps{}, line{};
    void EndLine(bool has_steps);
    void Finish(bool any_steps);
  };
  struct Ids;  // The ids of the stats that are looked at.

  absl::Status ReadLine(const xplane::Plane& plane, const Ids& ids, const xplane::Line& line,
                        EventKinds& kinds);
  bool Count(const xplane::Event& event, const EventKind& kind, const Times& times);
  void AddStep(std::string_view loop, std::int64_t number, const Times& times, const Batch& batch);
  void JoinPlans();
  void AddWork(const xplane::Plane& plane, const xplane::Event& event, const EventKind& kind,
               const Times& times, bool is_hlo, std::vector<HostWork>& work);
  void AddCall(const EventKind& kind, std::string_view name, const Times& times);
  void EndLine(std::vector<HostWork> work, std::size_t steps_before);

  Gathered& gathered_;
  const bool computes_;
  Nesting nesting_{};
  std::vector<FoundStep> steps_{};
  // When a server's scheduler planned an iteration, and the requests that ran then.
  std::vector<std::pair<std::int64_t, std::int64_t>> plans_{};
  std::uint64_t steps_left_out_ = 0;
  std::uint32_t lines_ = 0;
  SpansOfLines input_{}, collection_{}, operators_{};
  Spans calls_{};
  HostSpans spans_{};
  std::vector<std::vector<HostWork>> work_{};
};

}  // namespace strobe::digest
