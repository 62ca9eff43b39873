#include "collector/trace/digest/work_line.h"

#include <algorithm>

namespace strobe::digest {

void WorkLine::Begin(TimeSweep& sweep) {
  const std::int64_t begin = next_.times.begin_ps;
  if (overlap_ == Overlap::kParallel) {
    sweep.Start(begin, next_.kind);
    open_.push_back({next_.times.end_ps, next_.kind});
    std::push_heap(open_.begin(), open_.end());
  } else {
    // Starts the inner work before it stops the outer, so that the change is not taken for idle
    // time.
    sweep.Start(begin, next_.kind);
    if (!open_.empty()) sweep.Stop(begin, open_.back().kind);
    open_.push_back({next_.times.end_ps, next_.kind});
  }
  Advance();
}

void WorkLine::End(TimeSweep& sweep) {
  const std::int64_t end = end_ps();
  if (overlap_ == Overlap::kParallel) {
    std::pop_heap(open_.begin(), open_.end());
    const WorkKind kind = open_.back().kind;
    open_.pop_back();
    sweep.Stop(end, kind);
    return;
  }
  const WorkKind kind = open_.back().kind;
  open_.pop_back();
  // Outer work that ended before this one is over too.
  while (!open_.empty() && open_.back().end_ps <= end) open_.pop_back();
  if (!open_.empty()) sweep.Start(end, open_.back().kind);
  sweep.Stop(end, kind);
}

void WorkLine::Step(TimeSweep& sweep) {
  if (ends_next())
    End(sweep);
  else
    Begin(sweep);
}

LineOrder::LineOrder(const std::vector<WorkLine>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].more()) heap_.push_back({lines[i].at_ps(), i});
  }
  // A sorted array is a heap.
  std::sort(heap_.begin(), heap_.end(),
            [](const Entry& a, const Entry& b) { return a.at_ps < b.at_ps; });
}

void LineOrder::Update(bool more, std::int64_t at_ps) {
  if (more) {
    heap_.front().at_ps = at_ps;
  } else {
    heap_.front() = heap_.back();
    heap_.pop_back();
  }
  if (!heap_.empty()) SiftDown(0);
}

void LineOrder::SiftDown(std::size_t at) {
  const Entry entry = heap_[at];
  for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
    if (child + 1 < heap_.size() && heap_[child + 1].at_ps < heap_[child].at_ps) ++child;
    if (heap_[child].at_ps >= entry.at_ps) break;
    heap_[at] = heap_[child];
    at = child;
  }
  heap_[at] = entry;
}

}  // namespace strobe::digest
