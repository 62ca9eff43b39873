#include "collector/trace/kineto/event_splitter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "collector/trace/kineto/json_space.h"

namespace strobe::kineto {
namespace {

// Whether an object's first key is one of an event's.
bool BeginsAsEvent(std::string_view bytes) {
  if (!bytes.starts_with('{')) return false;
  bytes.remove_prefix(1);
  while (!bytes.empty() && IsJsonSpace(bytes.front())) bytes.remove_prefix(1);
  constexpr std::array<std::string_view, 8> kKeys = {R"("ph")",  R"("name")", R"("cat")",
                                                     R"("pid")", R"("tid")",  R"("ts")",
                                                     R"("dur")", R"("args")"};
  return std::any_of(kKeys.begin(), kKeys.end(),
                     [&](std::string_view key) { return bytes.starts_with(key); });
}

}  // namespace

EventSplitter::EventSplitter() : scan_(kPadding), end_(kPadding), offset_(0 - kPadding) {
  WriteSpace();
}

std::span<char> EventSplitter::WriteSpace() {
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
  WriteSpace();  // Space behind the end, so that the last block is whole.
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
  if (searching_) {
    const Found found = Search();
    if (searching_ || array_ended_) return found;
  }
  const std::size_t from = scan_;
  while (!array_ended_ && !searching_ && (input_ended_ ? scan_ < end_ : scan_ + 64 <= end_)) {
    if (burst_ > 0 && scan_ - from > burst_ && !events_.empty()) break;
    scan_ = Scan(scan_);
  }
  burst_ = burst_ < kWindow ? 2 * burst_ : 0;
  scan_ = std::min(scan_, end_);
  if (!events_.empty()) return Found::kEvents;
  if (array_ended_) return Found::kEnd;
  if (searching_) return NextEvents();
  const bool full = event_begin_ != kNone && end_ - event_begin_ > kMaxEventBytes;
  if (event_begin_ != kNone && (full || input_ended_) && !skipping_) {
    const std::string_view event(buffer_.get() + event_begin_, end_ - event_begin_);
    if (ScanObject(event).kind == Scanned::Kind::kBroken) {
      StartSearch(event_begin_, event_begin_ + 1);
      return NextEvents();
    }
    if (full) Skip();
  }
  if (!input_ended_) return Found::kMoreNeeded;
  array_open_ = true;
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
  // Between events are no texts, unless a quote is missing or there is one too many.
  unsigned between = depth_ == 0 ? 0 : 64;  // Where the block's part between events begins.
  const auto text_before = [&](unsigned end) {
    const std::uint64_t behind = between == 64 ? 0 : ~std::uint64_t{0} << between;
    return inside & behind & (end == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << end) - 1);
  };
  const auto stop = [&](std::uint64_t texts) {
    const std::size_t damaged = at + static_cast<unsigned>(std::countr_zero(texts));
    StartSearch(damaged, damaged);
    return damaged;
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
        array_ended_ = true;
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

void EventSplitter::Skip() {
  event_begin_ = kNone;
  skipping_ = true;
}

bool EventSplitter::Reread(const Extent& broken) {
  burst_ = kFirstBurst;
  // Where a bracket is missing, that of the array may be taken for it.
  bool found = buffer_[broken.begin] == '{' && buffer_[broken.end - 1] == ']';
  std::vector<std::size_t> pieces = {broken.begin};  // Where damaged events begin.
  for (std::size_t at = broken.begin + 1; at < broken.end && !found; ++at) {
    if (buffer_[at] != '{') continue;
    const Scanned tried = Try(at);
    found = tried.IsEvent() || IsOpen(tried);
    if (BeginsAsEvent({buffer_.get() + at, broken.end - at})) pieces.push_back(at);
  }
  if (!found) {
    pieces.push_back(broken.end);
    for (std::size_t i = 1; i < pieces.size(); ++i)
      AddDamage(offset_ + pieces[i - 1], offset_ + pieces[i]);
    return false;
  }
  stray_brackets_ = broken.stray_brackets;
  StartSearch(broken.begin, broken.begin + 1);
  return true;
}

void EventSplitter::StartSearch(std::size_t damaged, std::size_t from) {
  searching_ = true;
  damaged_at_ = offset_ + damaged;
  try_again_at_ = 0;
  array_ended_ = skipping_ = false;
  event_begin_ = kNone;
  depth_ = 0;
  scan_ = from;
}

// Searches for the next event, or the end of the array. searching_ is false when it was found.
EventSplitter::Found EventSplitter::Search() {
  if (!input_ended_ && offset_ + end_ < try_again_at_) return Found::kMoreNeeded;
  for (; scan_ < end_; ++scan_) {
    const char c = buffer_[scan_];
    if (c != '{' && c != ']') continue;
    const Scanned tried = Try(scan_);
    if (IsOpen(tried)) {
      try_again_at_ = offset_ + end_ + (end_ - scan_);
      return Found::kMoreNeeded;
    }
    if (c == '{' ? !tried.IsEvent() : tried.kind != Scanned::Kind::kOpen) {
      if (BeginsAsEvent({buffer_.get() + scan_, end_ - scan_})) {
        // One that is damaged as well.
        AddDamage(damaged_at_, offset_ + scan_);
        damaged_at_ = offset_ + scan_;
      }
      continue;
    }
    array_ended_ = c == ']';
    EndSearch(scan_);
    if (array_ended_) ++scan_;
    return Found::kEnd;
  }
  if (!input_ended_) return Found::kMoreNeeded;
  end_damaged_ = true;
  EndSearch(end_);
  return Found::kEnd;
}

// Tries whether an event, or the end of the file, is here.
Scanned EventSplitter::Try(std::size_t at) {
  // A hostile file could have every byte tried again and again.
  constexpr std::uint64_t kPerByte = 16, kFree = 16 << 20;
  if (tried_bytes_ > kFree + kPerByte * (offset_ + at)) return {};
  const std::string_view bytes(buffer_.get() + at, std::min(end_ - at, kMaxEventBytes + 1));
  const Scanned tried =
      buffer_[at] == '{' ? ScanObject(bytes) : ScanEnd(bytes, {.bare = top_.bare()});
  if (!IsOpen(tried)) tried_bytes_ += tried.size;
  return tried;
}

// Whether more bytes are needed to know.
bool EventSplitter::IsOpen(const Scanned& tried) const {
  return tried.kind == Scanned::Kind::kOpen && !input_ended_ && tried.size <= kMaxEventBytes;
}

void EventSplitter::EndSearch(std::size_t at) {
  searching_ = false;
  burst_ = kFirstBurst;
  strings_ = {};
  scan_ = at;
  AddDamage(damaged_at_, offset_ + at);
}

void EventSplitter::AddDamage(std::uint64_t begin, std::uint64_t end) {
  if (damage_.pieces++ == 0) damage_.first_at = begin;
  damage_.bytes += end - begin;
}

}  // namespace strobe::kineto
