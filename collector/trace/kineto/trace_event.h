// One event of a trace file in Chrome's JSON format, which PyTorch's Kineto writes too.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace strobe::kineto {

struct JsonValue {
  enum class Kind : std::uint8_t { kNone, kText, kScalar, kNested };

  Kind kind = Kind::kNone;
  // The text without quotes and escapes, or the JSON; that of lists and objects is evenly spaced.
  std::string_view text{};

  bool present() const { return kind != Kind::kNone; }
};

struct Member {
  std::string_view key{};
  JsonValue value{};
};

// Texts refer to the parsed bytes and to the parser.
struct TraceEvent {
  char phase = 0;  // 'X', 'B', 'i', ...; 0 if the event has none.
  std::string_view name{}, category{}, pid{}, tid{};
  JsonValue ts{}, dur{}, id{};
  std::vector<Member> args{};
  std::vector<Member> other_members{};  // Members of the event that have no field here.

  void Clear() {
    phase = 0;
    name = category = pid = tid = {};
    ts = dur = id = {};
    args.clear();
    other_members.clear();
  }
  // The value of a member in `other_members`; nullptr if the event does not have it.
  const JsonValue* Other(std::string_view key) const {
    for (const Member& member : other_members) {
      if (member.key == key) return &member.value;
    }
    return nullptr;
  }
  // Has the object no members at all? Some writers end their list with one.
  bool empty() const {
    return phase == 0 && name.empty() && !ts.present() && args.empty() && other_members.empty();
  }
};

}  // namespace strobe::kineto
