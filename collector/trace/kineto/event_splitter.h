// Splits a trace file into the JSON objects of its events, without parsing them. The file comes in
// pieces; the memory does not depend on its size. A file that is damaged is read on behind the
// damage: a quote may be missing, so that everything behind it looks like text, or a bracket.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collector/trace/kineto/bracket_masks.h"
#include "collector/trace/kineto/event_search.h"
#include "collector/trace/kineto/file_window.h"
#include "collector/trace/kineto/top_level.h"

namespace strobe::kineto {

// Where an event is in the buffer. Adjacent ones are separated by white space and a comma, or the
// file is damaged there.
struct EventExtent {
  std::uint32_t begin = 0, end = 0;
  std::uint64_t stray_brackets = 0;  // Brackets before the event.
};

// Follows the brackets within the array of events, and notes where events begin and end.
class BracketScan {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  enum class State : std::uint8_t { kInArray, kArrayEnded, kDamaged };
  State state() const { return state_; }
  // Begins anew between two events.
  void Restart();
  // Looks at the 64 bytes at `at`. Returns where to go on: behind them, behind the array's end, or
  // at the damage.
  std::size_t ReadBlock(const char* buffer, std::size_t at);

  // The events since ClearEvents.
  const std::vector<EventExtent>& events() const { return events_; }
  void ClearEvents() { events_.clear(); }

  bool in_event() const { return depth_ > 0; }
  // The begin of the event that has not ended; kNone between events and if it is skipped.
  std::size_t event_begin() const { return event_begin_; }
  void MoveEvent(std::size_t bytes) {
    if (event_begin_ != kNone) event_begin_ -= bytes;
  }
  // The event that has not ended is too large.
  void SkipEvent();
  std::uint64_t too_large() const { return too_large_; }

  // Brackets that close nothing.
  std::uint64_t stray_brackets() const { return stray_brackets_; }
  // The blocks behind the event are read again.
  void GoBackTo(const EventExtent& event) { stray_brackets_ = event.stray_brackets; }

 private:
  State state_ = State::kInArray;
  StringState strings_;
  std::uint64_t depth_ = 0;
  std::size_t event_begin_ = kNone;
  bool skipping_ = false;
  std::vector<EventExtent> events_;
  std::uint64_t too_large_ = 0, stray_brackets_ = 0;
};

class EventSplitter {
 public:
  // The place for the next bytes of the file, never empty. Invalidates events().
  std::span<char> WriteSpace();
  void Commit(std::size_t bytes) { window_.Commit(bytes); }
  // There are no more bytes.
  void EndInput();

  enum class Found { kMoreNeeded, kEvents, kMember, kNotJson, kEnd };
  Found Next();

  // Call it after kEvents. The events are in the order of the file.
  std::span<const EventExtent> events() const { return scan_.events(); }
  char* buffer() const { return window_.buffer(); }
  // Call it after kMember.
  const TopLevel& top() const { return top_; }

  // Call it for an event that could not be parsed. True if its end is another one's, so that the
  // events behind it are found anew. False if only this event is damaged.
  bool Reread(const EventExtent& broken);

  std::uint64_t too_large() const { return scan_.too_large(); }
  std::uint64_t stray_brackets() const { return scan_.stray_brackets(); }
  const EventSearch::Damage& damage() const { return search_.damage(); }
  // Did the file end inside of an event, or before the array of events did?
  bool cut() const { return cut_; }
  bool array_open() const { return array_open_; }
  bool read_events() const { return read_events_; }

 private:
  static constexpr std::size_t kFirstBurst = 4 << 10;

  Found NextEvents();
  void StartSearch(std::size_t damaged, std::size_t from);

  FileWindow window_;
  std::size_t at_ = FileWindow::kPadding;  // What is before it in the buffer was looked at.
  TopLevel top_;
  BracketScan scan_;
  EventSearch search_{window_, top_};
  // How much is scanned at once behind damage; 0: everything. What is found there is scanned again
  // if there is more damage.
  std::size_t burst_ = 0;
  bool in_events_ = false, read_events_ = false, cut_ = false, array_open_ = false;
};

}  // namespace strobe::kineto
