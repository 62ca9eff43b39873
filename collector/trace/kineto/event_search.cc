#include "collector/trace/kineto/event_search.h"

#include <cstdint>
#include <string>

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

}  // namespace strobe::kineto
