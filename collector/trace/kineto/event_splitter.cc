#include "collector/trace/kineto/event_splitter.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

namespace strobe::kineto {

void BracketScan::Restart() {
  state_ = State::kInArray;
  strings_ = {};
  depth_ = 0;
  event_begin_ = kNone;
  skipping_ = false;
}

void BracketScan::SkipEvent() {
  event_begin_ = kNone;
  skipping_ = true;
}

std::size_t BracketScan::ReadBlock(const char* buffer, std::size_t at) {
  const char* block = buffer + at;
  const BracketMasks masks = FindBrackets(block);
  const std::uint64_t inside = strings_.InString(masks);
  // Between events are no texts, unless a quote is missing or there is one too many.
  unsigned between = depth_ == 0 ? 0 : 64;  // Where the block's part between events begins.
  const auto text_before = [&](unsigned end) {
    const std::uint64_t behind = between == 64 ? 0 : ~std::uint64_t{0} << between;
    return inside & behind & (end == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << end) - 1);
  };
  const auto stop = [&](std::uint64_t texts) {
    state_ = State::kDamaged;
    return at + static_cast<unsigned>(std::countr_zero(texts));
  };
  for (std::uint64_t left = (masks.opens | masks.closes) & ~inside; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    if (depth_ == 0) {
      if (const std::uint64_t texts = text_before(i); texts != 0) return stop(texts);
    }
    if ((masks.opens >> i & 1) != 0) {
      if (depth_++ == 0) event_begin_ = at + i;
    } else if (depth_ == 0) {
      if (block[i] == ']') {
        state_ = State::kArrayEnded;
        return at + i + 1;
      }
      ++stray_brackets_;
    } else if (--depth_ == 0) {
      if (std::exchange(skipping_, false))
        ++too_large_;
      else
        events_.push_back({static_cast<std::uint32_t>(event_begin_),
                           static_cast<std::uint32_t>(at + i + 1), stray_brackets_});
      event_begin_ = kNone;
      between = i + 1;
    }
  }
  if (depth_ == 0) {
    if (const std::uint64_t texts = text_before(64); texts != 0) return stop(texts);
  }
  return at + 64;
}

std::span<char> EventSplitter::WriteSpace() {
  scan_.ClearEvents();
  // What is still needed: the event that has not ended, or else what was not looked at.
  const std::size_t event = scan_.event_begin();
  const std::size_t moved = window_.KeepFrom(event == BracketScan::kNone ? at_ : event);
  at_ -= moved;
  scan_.MoveEvent(moved);
  return window_.next_piece();
}

void EventSplitter::EndInput() {
  WriteSpace();
  window_.EndInput();
}

EventSplitter::Found EventSplitter::Next() {
  for (;;) {
    if (in_events_) {
      const Found found = NextEvents();
      if (found != Found::kEnd) return found;
      in_events_ = false;
      top_.EndEvents();
      continue;
    }
    const char* at = window_.buffer() + at_;
    const TopLevel::Found found = top_.Read(at, window_.buffer() + window_.end());
    at_ = static_cast<std::size_t>(at - window_.buffer());
    switch (found) {
      case TopLevel::Found::kNothing:
        return window_.all_read() ? Found::kEnd : Found::kMoreNeeded;
      case TopLevel::Found::kMember:
        return Found::kMember;
      case TopLevel::Found::kNotJson:
        return Found::kNotJson;
      case TopLevel::Found::kEvents:
        in_events_ = read_events_ = true;
        scan_.Restart();
        break;
    }
  }
}

// kEnd when the array or the file has ended.
EventSplitter::Found EventSplitter::NextEvents() {
  scan_.ClearEvents();
  if (search_.active()) {
    const EventSearch::Found found = search_.Search(at_);
    if (found == EventSearch::Found::kMoreNeeded) return Found::kMoreNeeded;
    burst_ = kFirstBurst;
    if (found == EventSearch::Found::kArrayEnd) return Found::kEnd;
  }
  const std::size_t from = at_, end = window_.end();
  while (scan_.state() == BracketScan::State::kInArray &&
         (window_.all_read() ? at_ < end : at_ + 64 <= end)) {
    if (burst_ > 0 && at_ - from > burst_ && !scan_.events().empty()) break;
    at_ = scan_.ReadBlock(window_.buffer(), at_);
  }
  burst_ = burst_ < FileWindow::kPiece ? 2 * burst_ : 0;
  at_ = std::min(at_, end);
  if (scan_.state() == BracketScan::State::kDamaged) StartSearch(at_, at_);
  if (!scan_.events().empty()) return Found::kEvents;
  if (scan_.state() == BracketScan::State::kArrayEnded) return Found::kEnd;
  if (search_.active()) return NextEvents();
  const std::size_t begin = scan_.event_begin();
  const bool full = begin != BracketScan::kNone && end - begin > kMaxEventBytes;
  if (begin != BracketScan::kNone && (full || window_.all_read())) {
    const std::string_view event(window_.buffer() + begin, end - begin);
    if (ScanObject(event).kind == Scanned::Kind::kBroken) {
      StartSearch(begin, begin + 1);
      return NextEvents();
    }
    if (full) scan_.SkipEvent();
  }
  if (!window_.all_read()) return Found::kMoreNeeded;
  array_open_ = true;
  cut_ = cut_ || scan_.in_event();
  scan_.Restart();
  return Found::kEnd;
}

bool EventSplitter::Reread(const EventExtent& broken) {
  burst_ = kFirstBurst;
  if (!search_.HidesEvents(broken.begin, broken.end)) return false;
  scan_.GoBackTo(broken);
  StartSearch(broken.begin, broken.begin + 1);
  return true;
}

// The file is damaged at `damaged`. The next event is searched for from `from` on.
void EventSplitter::StartSearch(std::size_t damaged, std::size_t from) {
  search_.Start(damaged);
  scan_.Restart();
  at_ = from;
}

}  // namespace strobe::kineto
