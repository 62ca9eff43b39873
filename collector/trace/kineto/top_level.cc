#include "collector/trace/kineto/top_level.h"

#include "collector/trace/kineto/json_space.h"

namespace strobe::kineto {
namespace {

constexpr std::size_t kMaxKeyBytes = 256;

// One of its bytes. They are skipped one by one, because a buffer may end between them.
bool IsByteOrderMark(char c) { return c == '\xef' || c == '\xbb' || c == '\xbf'; }

}  // namespace

void TopLevel::Keep(char c) {
  if (value_.size() < kMaxValueBytes)
    value_.push_back(c);
  else
    value_cut_ = true;
}

TopLevel::Found TopLevel::Begin(char c) {
  if (IsByteOrderMark(c)) return Found::kNothing;
  if (c != '[' && c != '{') return Found::kNotJson;
  bare_ = c == '[';
  state_ = bare_ ? State::kValue : State::kKey;
  return bare_ ? Found::kEvents : Found::kNothing;
}

TopLevel::Found TopLevel::BeginValue(char c) {
  if (c == '[' && key_ == "traceEvents") return Found::kEvents;
  value_.clear();
  value_cut_ = escaped_ = in_string_ = false;
  Keep(c);
  depth_ = 1;
  state_ = c == '"' ? State::kText : c == '[' || c == '{' ? State::kNested : State::kScalar;
  return Found::kNothing;
}

// Reads one byte of a value. Sets `at` back if the byte does not belong to it.
TopLevel::Found TopLevel::InValue(const char*& at) {
  const char c = *at;
  if (state_ == State::kScalar) {
    if (c != ',' && c != '}' && !IsJsonSpace(c)) {
      Keep(c);
      return Found::kNothing;
    }
    --at;
    state_ = State::kComma;
    return Found::kMember;
  }
  Keep(c);
  if (escaped_) {
    escaped_ = false;
  } else if (state_ == State::kText || in_string_) {
    escaped_ = c == '\\';
    if (c != '"') return Found::kNothing;
    in_string_ = false;
    if (state_ != State::kText) return Found::kNothing;
    state_ = State::kComma;
    return Found::kMember;
  } else if (c == '"') {
    in_string_ = true;
  } else if (c == '[' || c == '{') {
    ++depth_;
  } else if ((c == ']' || c == '}') && --depth_ == 0) {
    state_ = State::kComma;
    return Found::kMember;
  }
  return Found::kNothing;
}

TopLevel::Found TopLevel::Read(const char*& at, const char* end) {
  for (; at != end; ++at) {
    const char c = *at;
    Found found = Found::kNothing;
    if (state_ == State::kInKey) {
      if (!escaped_ && c == '"')
        state_ = State::kColon;
      else if (key_.size() < kMaxKeyBytes)
        key_.push_back(c);
      escaped_ = !escaped_ && c == '\\';
    } else if (state_ == State::kScalar || state_ == State::kText || state_ == State::kNested) {
      found = InValue(at);
    } else if (IsJsonSpace(c)) {
      continue;
    } else if (state_ == State::kBegin) {
      found = Begin(c);
    } else if (state_ == State::kKey && c == '"') {
      key_.clear();
      escaped_ = false;
      state_ = State::kInKey;
    } else if (c == '{' && after_events_ && (state_ == State::kKey || state_ == State::kDone)) {
      // A bracket too many ended the array.
      --at;
      ++stray_bytes_;
      found = Found::kEvents;
    } else if ((state_ == State::kKey || state_ == State::kComma) && c == '}') {
      state_ = State::kDone;
    } else if (state_ == State::kComma && c == ',') {
      state_ = State::kKey;
    } else if (state_ == State::kColon && c == ':') {
      state_ = State::kValue;
    } else if (state_ == State::kValue) {
      found = BeginValue(c);
    } else {
      // A damaged file is read as far as it goes. What belongs nowhere is counted, and skipped.
      ++stray_bytes_;
    }
    if (found != Found::kNothing) {
      ++at;
      return found;
    }
  }
  return Found::kNothing;
}

}  // namespace strobe::kineto
