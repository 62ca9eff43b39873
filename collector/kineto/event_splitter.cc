#include "collector/kineto/event_splitter.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace strobe::kineto {
namespace {

// Does a text in these bytes contain a line break? They begin outside of texts.
bool HasBrokenText(std::string_view bytes) {
  bool in_string = false, escaped = false;
  for (const char c : bytes) {
    if (in_string && c == '\n') return true;
    if (c == '"' && !escaped) in_string = !in_string;
    escaped = in_string && !escaped && c == '\\';
  }
  return false;
}

// The first line break inside of a text; 64 if there is none.
unsigned FirstLineBreak(const char* block, std::uint64_t inside) {
  for (unsigned i = 0; i < 64; ++i) {
    if (block[i] == '\n' && (inside >> i & 1) != 0) return i;
  }
  return 64;
}

}  // namespace

EventSplitter::EventSplitter() : scan_(kPadding), end_(kPadding), offset_(0 - kPadding) { Room(); }

std::span<char> EventSplitter::Room() {
  events_.clear();
  // What is still needed: the event that has not ended, or else what was not looked at.
  const std::size_t keep = event_begin_ == kNone ? scan_ : event_begin_;
  const std::size_t kept = end_ - keep;
  const std::size_t wanted = kPadding + kept + kWindow + 2 * kPadding;
  std::unique_ptr<char[]> old;
  if (wanted > capacity_) {
    // By powers of two, so that a large event is not copied often.
    capacity_ = std::bit_ceil(wanted);
    old = std::exchange(buffer_, std::make_unique_for_overwrite<char[]>(capacity_));
    std::memset(buffer_.get(), ' ', kPadding);
    if (old != nullptr) std::memcpy(buffer_.get() + kPadding, old.get() + keep, kept);
  } else if (keep != kPadding) {
    std::memmove(buffer_.get() + kPadding, buffer_.get() + keep, kept);
  }
  const std::size_t moved = keep - kPadding;
  offset_ += moved;
  scan_ -= moved;
  end_ -= moved;
  if (event_begin_ != kNone) event_begin_ = kPadding;
  return {buffer_.get() + end_, kWindow};
}

void EventSplitter::EndInput() {
  Room();  // Space behind the end, so that the last block is whole.
  std::memset(buffer_.get() + end_, ' ', kPadding);
  input_ended_ = true;
}

EventSplitter::Found EventSplitter::Next() {
  for (;;) {
    if (in_events_) {
      const Found found = NextEvents();
      if (found != Found::kEnd) return found;
      in_events_ = array_ended_ = false;
      top_.EndEvents();
      continue;
    }
    const char* at = buffer_.get() + scan_;
    const TopLevel::Found found = top_.Read(at, buffer_.get() + end_);
    scan_ = static_cast<std::size_t>(at - buffer_.get());
    switch (found) {
      case TopLevel::Found::kNothing:
        return input_ended_ ? Found::kEnd : Found::kMoreNeeded;
      case TopLevel::Found::kMember:
        return Found::kMember;
      case TopLevel::Found::kNotJson:
        return Found::kNotJson;
      case TopLevel::Found::kEvents:
        in_events_ = read_events_ = true;
        strings_ = {};
        depth_ = 0;
        break;
    }
  }
}

// kEnd when the array or the file has ended.
EventSplitter::Found EventSplitter::NextEvents() {
  events_.clear();
  while (!array_ended_ && (input_ended_ ? scan_ < end_ : scan_ + 64 <= end_)) scan_ = Scan(scan_);
  scan_ = std::min(scan_, end_);
  if (!events_.empty()) return Found::kEvents;
  if (array_ended_) return Found::kEnd;
  const bool full = event_begin_ != kNone && end_ - event_begin_ > kMaxEventBytes;
  if (event_begin_ != kNone && (full || input_ended_)) {
    const std::string_view event(buffer_.get() + event_begin_, end_ - event_begin_);
    if (!careful_ && HasBrokenText(event)) {
      RereadFrom(static_cast<std::uint32_t>(event_begin_));
      return NextEvents();
    }
    if (full) Skip();
  }
  if (!input_ended_) return Found::kMoreNeeded;
  cut_ = cut_ || depth_ > 0;
  event_begin_ = kNone;
  depth_ = 0;
  return Found::kEnd;
}

// Looks at one block. Returns where to go on.
std::size_t EventSplitter::Scan(std::size_t at) {
  const char* block = buffer_.get() + at;
  const BracketMasks masks = FindBrackets(block);
  const std::uint64_t inside = strings_.InString(masks);
  const unsigned broken = careful_ ? FirstLineBreak(block, inside) : 64;
  const std::uint64_t whole = broken == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << broken) - 1;
  for (std::uint64_t left = (masks.opens | masks.closes) & ~inside & whole; left != 0;
       left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    if ((masks.opens >> i & 1) != 0) {
      if (depth_++ == 0) event_begin_ = at + i;
    } else if (depth_ == 0) {
      if (block[i] == ']' && !lost_) {
        array_ended_ = true;
        return at + i + 1;
      }
      ++stray_brackets_;
    } else if (--depth_ == 0) {
      if (std::exchange(skipping_, false))
        ++too_large_;
      else
        events_.push_back(
            {static_cast<std::uint32_t>(event_begin_), static_cast<std::uint32_t>(at + i + 1)});
      event_begin_ = kNone;
      lost_ = false;
    }
  }
  return broken == 64 ? at + 64 : EndBrokenText(at + broken + 1);
}

// A text lacks its closing quote, so the event that it is in is lost. The next event begins in one
// of the next lines.
std::size_t EventSplitter::EndBrokenText(std::size_t at) {
  ++broken_;
  lost_ = true;
  strings_ = {};
  depth_ = 0;
  event_begin_ = kNone;
  skipping_ = false;
  return at;
}

void EventSplitter::Skip() {
  event_begin_ = kNone;
  skipping_ = true;
}

void EventSplitter::RereadFrom(std::uint32_t begin) {
  events_.clear();
  careful_ = true;
  array_ended_ = skipping_ = false;
  strings_ = {};
  depth_ = 0;
  event_begin_ = kNone;
  scan_ = begin;
}

}  // namespace strobe::kineto
