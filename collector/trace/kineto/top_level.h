// Reads what surrounds the events of a trace file: `[events]`, or an object with members of which
// one is "traceEvents". The file comes in pieces of any size.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strobe::kineto {

class TopLevel {
 public:
  // A member's value that is longer is cut.
  static constexpr std::size_t kMaxValueBytes = 1 << 20;

  enum class Found {
    kNothing,  // All bytes are read.
    kEvents,   // The next byte is the first one inside of the array of events.
    kMember,   // Another member; see key() and value().
    kNotJson,  // The file's first character begins neither an object nor an array.
  };
  // Reads on from `at`, which it advances.
  Found Read(const char*& at, const char* end);
  // Call it when the array of events has been read.
  void EndEvents() {
    state_ = bare_ ? State::kDone : State::kComma;
    after_events_ = true;
  }

  // The member's key without quotes, and its value, both as they are in the file.
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }
  bool value_cut() const { return value_cut_; }

  // Is the file an array, without an object around it?
  bool bare() const { return bare_; }
  // Has the file's array or object begun, and has it ended?
  bool begun() const { return state_ != State::kBegin; }
  bool done() const { return state_ == State::kDone; }
  // Bytes that fit nowhere, also behind the end.
  std::uint64_t stray_bytes() const { return stray_bytes_; }

 private:
  enum class State { kBegin, kKey, kInKey, kColon, kValue, kScalar, kText, kNested, kComma, kDone };

  Found Begin(char c);
  Found BeginValue(char c);
  Found InValue(const char*& at);
  void Keep(char c);

  State state_ = State::kBegin;
  bool bare_ = false;  // The file is an array.
  bool after_events_ = false;
  bool escaped_ = false, in_string_ = false;
  std::uint64_t depth_ = 0;
  std::string key_, value_;
  bool value_cut_ = false;
  std::uint64_t stray_bytes_ = 0;
};

}  // namespace strobe::kineto
