// The first events of a file, kept until it is known which time most of them have.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "collector/trace/kineto/trace_event.h"

namespace strobe::kineto {

class FirstEvents {
 public:
  // Copies an event.
  void Keep(const TraceEvent& event);
  // Whether there are enough events to judge by.
  bool full() const { return timed_ >= kEvents || bytes_ >= kBytes; }
  const std::deque<TraceEvent>& events() const { return events_; }
  // The median of the events' times in whole microseconds, without those that may be lost if there
  // are others; nullopt if no event has one.
  std::optional<std::int64_t> MedianUs() const;
  // Frees the memory.
  void Clear();

 private:
  static constexpr std::size_t kEvents = 64, kBytes = 1 << 20;

  // Deques, because the events refer to the texts, which must not move.
  std::deque<TraceEvent> events_;
  std::deque<std::string> texts_;
  std::size_t bytes_ = 0, timed_ = 0;  // `timed_` have a time that is surely meant.
};

}  // namespace strobe::kineto
