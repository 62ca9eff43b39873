#include "collector/trace/kineto/event_search.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "collector/trace/kineto/json_space.h"

namespace strobe::kineto {
namespace {

using Kind = Scanned::Kind;

bool IsOfWord(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '+' || c == '.';
}

class Scanner {
 public:
  explicit Scanner(std::string_view bytes) : bytes_(bytes) {}

  // The scan begins behind the opening bracket, where a key may come, or behind a member.
  enum class Behind : std::uint8_t { kBracket, kMember };
  Scanned Scan(std::size_t at, Behind behind) {
    stack_ = "{";
    expected_ = behind == Behind::kBracket ? Expected::kKey : Expected::kComma;
    for (at_ = at; at_ < bytes_.size();) {
      if (IsJsonSpace(bytes_[at_])) {
        ++at_;
        continue;
      }
      if (!Take(bytes_[at_])) return {open_ ? Kind::kOpen : Kind::kBroken, at_, has_phase_};
      if (stack_.empty()) return {Kind::kWhole, at_, has_phase_};
    }
    return {Kind::kOpen, at_, has_phase_};
  }

 private:
  enum class Expected : std::uint8_t { kKey, kColon, kValue, kComma };

  // Reads one token. False if it does not fit, or is not whole, which `open_` tells.
  bool Take(char c) {
    if (c == '}' || c == ']') return Close(c);
    switch (expected_) {
      case Expected::kKey:
        return c == '"' && TakeKey();
      case Expected::kColon:
        ++at_;
        expected_ = Expected::kValue;
        return c == ':';
      case Expected::kComma:
        ++at_;
        expected_ = stack_.back() == '{' ? Expected::kKey : Expected::kValue;
        return c == ',';
      case Expected::kValue:
        return TakeValue(c);
    }
    return false;
  }

  bool Close(char c) {
    const bool in_object = stack_.back() == '{';
    const bool may_end = expected_ == Expected::kComma ||
                         expected_ == (in_object ? Expected::kKey : Expected::kValue);
    if (!may_end || (c == '}') != in_object) return false;
    ++at_;
    stack_.pop_back();
    expected_ = Expected::kComma;
    return true;
  }

  bool TakeKey() {
    const std::size_t begin = at_ + 1;
    if (!TakeText()) return false;
    has_phase_ =
        has_phase_ || (stack_.size() == 1 && bytes_.substr(begin, at_ - 1 - begin) == "ph");
    expected_ = Expected::kColon;
    return true;
  }

  bool TakeText() {
    for (++at_; at_ < bytes_.size(); ++at_) {
      const char c = bytes_[at_];
      if (c == '\n') return false;
      if (c == '\\')
        ++at_;
      else if (c == '"')
        return ++at_, true;
    }
    at_ = bytes_.size();
    open_ = true;
    return false;
  }

  bool TakeValue(char c) {
    expected_ = Expected::kComma;
    if (c == '"') return TakeText();
    if (c == '{' || c == '[') {
      ++at_;
      stack_.push_back(c);
      expected_ = c == '{' ? Expected::kKey : Expected::kValue;
      return true;
    }
    const std::size_t begin = at_;
    while (at_ < bytes_.size() && IsOfWord(bytes_[at_])) ++at_;
    return at_ > begin;
  }

  const std::string_view bytes_;
  std::size_t at_ = 0;
  std::string stack_{};  // The brackets that are open.
  Expected expected_ = Expected::kKey;
  bool has_phase_ = false, open_ = false;
};

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

Scanned ScanObject(std::string_view bytes) {
  return Scanner(bytes).Scan(1, Scanner::Behind::kBracket);
}

Scanned ScanEnd(std::string_view bytes, const FileEnd& file) {
  Scanned end{.kind = Kind::kWhole, .size = 1};
  if (!file.bare) end = Scanner(bytes).Scan(1, Scanner::Behind::kMember);
  if (end.kind != Kind::kWhole) return end;
  while (end.size < bytes.size() && IsJsonSpace(bytes[end.size])) ++end.size;
  end.kind = end.size == bytes.size() ? Kind::kOpen : Kind::kBroken;
  return end;
}

void EventSearch::Start(std::size_t at) {
  active_ = true;
  damaged_at_ = window_.PlaceOf(at);
  try_again_at_ = 0;
}

EventSearch::Found EventSearch::Search(std::size_t& at) {
  const std::size_t end = window_.end();
  if (!window_.all_read() && window_.PlaceOf(end) < try_again_at_) return Found::kMoreNeeded;
  for (; at < end; ++at) {
    const char* const found = window_.buffer() + at;
    if (*found != '{' && *found != ']') continue;
    const Scanned tried = Try(at);
    if (IsOpen(tried)) {
      try_again_at_ = window_.PlaceOf(end) + (end - at);
      return Found::kMoreNeeded;
    }
    const bool array_end = *found == ']';
    if (array_end ? tried.kind == Kind::kOpen : tried.IsEvent()) {
      active_ = false;
      AddDamage(damaged_at_, window_.PlaceOf(at));
      if (array_end) ++at;
      return array_end ? Found::kArrayEnd : Found::kEvent;
    }
    if (BeginsAsEvent({found, end - at})) {
      // One that is damaged as well.
      AddDamage(damaged_at_, window_.PlaceOf(at));
      damaged_at_ = window_.PlaceOf(at);
    }
  }
  if (!window_.all_read()) return Found::kMoreNeeded;
  active_ = false;
  damage_.at_end = true;
  AddDamage(damaged_at_, window_.PlaceOf(end));
  return Found::kFileEnd;
}

bool EventSearch::HidesEvents(std::size_t begin, std::size_t end) {
  const char* const buffer = window_.buffer();
  // Where a bracket is missing, that of the array may be taken for it.
  bool found = buffer[begin] == '{' && buffer[end - 1] == ']';
  std::vector<std::size_t> pieces = {begin};  // Where damaged events begin.
  for (std::size_t at = begin + 1; at < end && !found; ++at) {
    if (buffer[at] != '{') continue;
    const Scanned tried = Try(at);
    found = tried.IsEvent() || IsOpen(tried);
    if (BeginsAsEvent({buffer + at, end - at})) pieces.push_back(at);
  }
  if (found) return true;
  pieces.push_back(end);
  for (std::size_t i = 1; i < pieces.size(); ++i)
    AddDamage(window_.PlaceOf(pieces[i - 1]), window_.PlaceOf(pieces[i]));
  return false;
}

// Tries whether an event, or the end of the file, is here.
Scanned EventSearch::Try(std::size_t at) {
  // A hostile file could have every byte tried again and again.
  constexpr std::uint64_t kPerByte = 16, kFree = 16 << 20;
  if (tried_bytes_ > kFree + kPerByte * window_.PlaceOf(at)) return {};
  const std::string_view bytes(window_.buffer() + at,
                               std::min(window_.end() - at, kMaxEventBytes + 1));
  const Scanned tried =
      bytes.front() == '{' ? ScanObject(bytes) : ScanEnd(bytes, {.bare = top_.bare()});
  if (!IsOpen(tried)) tried_bytes_ += tried.size;
  return tried;
}

// Whether more bytes are needed to know.
bool EventSearch::IsOpen(const Scanned& tried) const {
  return tried.kind == Kind::kOpen && !window_.all_read() && tried.size <= kMaxEventBytes;
}

void EventSearch::AddDamage(std::uint64_t begin, std::uint64_t end) {
  if (damage_.pieces++ == 0) damage_.first_at = begin;
  damage_.bytes += end - begin;
}

}  // namespace strobe::kineto
