// The work of one stream, or of one thread that computes, as begins and ends in the order of time.
#pragma once
#include <cstdint>
#include <vector>

#include "collector/trace/digest/event_times.h"
#include "collector/trace/digest/time_sweep.h"

namespace strobe::digest {

struct Work {
  Times times{};
  WorkKind kind = WorkKind::kCompute;
  std::string_view event{};  // Its bytes, if it comes from a plane.
};

// Gives the work of a line one by one, sorted by begin.
class WorkSource {
 public:
  WorkSource() = default;
  WorkSource(const WorkSource&) = delete;
  WorkSource& operator=(const WorkSource&) = delete;
  virtual ~WorkSource() = default;
  // False at the end.
  virtual bool Next(Work& work) = 0;
};

// How work of one line that runs at the same time is understood.
enum class Overlap : std::uint8_t {
  kParallel,  // All of it runs.
  kNested,    // What began last runs; what is around it waits.
};

class WorkLine {
 public:
  WorkLine(WorkSource& source, Overlap overlap) : source_(source), overlap_(overlap) { Advance(); }

  // False when all work has ended.
  bool more() const { return has_next_ || !open_.empty(); }
  // When the next work begins or ends.
  std::int64_t at_ps() const { return ends_next() ? end_ps() : next_.times.begin_ps; }
  bool ends_next() const {
    return !open_.empty() && (!has_next_ || end_ps() <= next_.times.begin_ps);
  }
  // The work that begins, if !ends_next().
  const Work& next() const { return next_; }
  // Lets it begin or end.
  void Step(TimeSweep& sweep);

 private:
  struct Open {
    std::int64_t end_ps = 0;
    WorkKind kind{};
    // As a heap, what ends first is on top.
    bool operator<(const Open& other) const { return end_ps > other.end_ps; }
  };
  std::int64_t end_ps() const {
    return overlap_ == Overlap::kParallel ? open_.front().end_ps : open_.back().end_ps;
  }
  void Begin(TimeSweep& sweep);
  void End(TimeSweep& sweep);
  void Advance() { has_next_ = source_.Next(next_); }

  WorkSource& source_;
  const Overlap overlap_;
  Work next_{};
  bool has_next_ = false;
  std::vector<Open> open_{};  // A heap or, if nested, a stack.
};

// Puts the work of several lines into the sweep in the order of time. `begins(line number, work)`
// is called before work begins.
template <typename Begins>
void SweepLines(std::vector<WorkLine>& lines, TimeSweep& sweep, const Begins& begins);

// The lines by the time of what comes next, the earliest first.
class LineOrder {
 public:
  explicit LineOrder(const std::vector<WorkLine>& lines);

  bool empty() const { return heap_.empty(); }
  std::size_t first() const { return heap_.front().line; }
  // The first line has changed; it has nothing more if !more.
  void Update(bool more, std::int64_t at_ps);

 private:
  struct Entry {
    std::int64_t at_ps = 0;
    std::size_t line = 0;
  };
  void SiftDown(std::size_t at);
  std::vector<Entry> heap_{};
};

template <typename Begins>
void SweepLines(std::vector<WorkLine>& lines, TimeSweep& sweep, const Begins& begins) {
  LineOrder order(lines);
  while (!order.empty()) {
    const std::size_t number = order.first();
    WorkLine& line = lines[number];
    if (!line.ends_next()) begins(number, line.next());
    line.Step(sweep);
    const bool more = line.more();
    order.Update(more, more ? line.at_ps() : 0);
  }
}

}  // namespace strobe::digest
