#include "collector/stall/flight_dump.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "collector/stall/flight_builder.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::stall {

namespace {

using Kind = DumpValue::Kind;

constexpr std::size_t kMaxDepth = 12, kMaxMarks = 32;
// What is read and not yet an entry of the record. A copy of a memo counts each time.
constexpr std::size_t kMaxValues = 500'000;
// What the memo may repeat in all, entries included. A frame has seven values, so that 100,000
// entries may have 47 frames each.
constexpr std::size_t kMaxRepeated = kMaxDumpBytes;

enum Opcode : unsigned char {
  kProto = 0x80,
  kTuple2 = 0x86,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kMark = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItems = 'u',
  kEmptyDict = '}',
};

struct OpcodeName {
  unsigned char opcode;
  const char* name;
};
// The opcodes above, and the refused ones that other pickles have.
constexpr std::array kOpcodeNames = std::to_array<OpcodeName>({
    {kProto, "PROTO"},
    {kTuple2, "TUPLE2"},
    {kNewTrue, "NEWTRUE"},
    {kNewFalse, "NEWFALSE"},
    {kLong1, "LONG1"},
    {kMark, "MARK"},
    {kStop, "STOP"},
    {kBinFloat, "BINFLOAT"},
    {kBinInt, "BININT"},
    {kBinInt1, "BININT1"},
    {kBinInt2, "BININT2"},
    {kNone, "NONE"},
    {kBinUnicode, "BINUNICODE"},
    {kEmptyList, "EMPTY_LIST"},
    {kAppends, "APPENDS"},
    {kBinGet, "BINGET"},
    {kLongBinGet, "LONG_BINGET"},
    {kBinPut, "BINPUT"},
    {kLongBinPut, "LONG_BINPUT"},
    {kSetItems, "SETITEMS"},
    {kEmptyDict, "EMPTY_DICT"},
    {'c', "GLOBAL"},
    {'R', "REDUCE"},
    {'b', "BUILD"},
    {'i', "INST"},
    {'o', "OBJ"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {'s', "SETITEM"},
    {'a', "APPEND"},
    {'t', "TUPLE"},
    {')', "EMPTY_TUPLE"},
    {0x81, "NEWOBJ"},
    {0x85, "TUPLE1"},
    {0x87, "TUPLE3"},
    {0x8b, "LONG4"},
    {0x8c, "SHORT_BINUNICODE"},
    {0x93, "STACK_GLOBAL"},
    {0x94, "MEMOIZE"},
    {0x95, "FRAME"},
});

std::string NameOfOpcode(unsigned char opcode) {
  for (const OpcodeName& known : kOpcodeNames) {
    if (known.opcode == opcode)
      return StrCat(known.name, absl::StrFormat(" (0x%02x)", int{opcode}));
  }
  return absl::StrFormat("0x%02x", int{opcode});
}

std::size_t CountValues(const DumpValue& value) {
  std::size_t count = 1;
  for (const DumpValue& item : value.items) count += CountValues(item);
  return count;
}

class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<FlightRecord> Run() {
    if (bytes_.size() > kMaxDumpBytes)
      return absl::DataLossError(StrCat("the dump has more than ", kMaxDumpBytes, " bytes"));
    while (!stopped_) {
      begin_ = at_;
      opcode_.reset();
      if (at_ == bytes_.size()) return Damage("the dump ends without STOP");
      opcode_ = static_cast<unsigned char>(bytes_[at_++]);
      RETURN_IF_ERROR(begin_ == 0 ? First() : Step());
      if (values_ > kMaxValues)
        return Damage("the values before it are too many for a Flight Recorder's dump");
    }
    if (at_ != bytes_.size()) return Damage(StrCat(bytes_.size() - at_, " bytes follow"));
    absl::StatusOr<FlightRecord> record = builder_.Finish(stack_[0]);
    if (!record.ok()) return Damage(MessageOf(record.status()));
    return record;
  }

 private:
  absl::Status Damage(std::string_view what) const {
    const std::string opcode = opcode_ ? StrCat(", opcode ", NameOfOpcode(*opcode_)) : "";
    return absl::DataLossError(StrCat("offset ", begin_, opcode, ": ", what));
  }

  // The little-endian number behind the opcode.
  absl::StatusOr<std::uint64_t> Unsigned(std::size_t size) {
    ASSIGN_OR_RETURN(const std::string_view raw, Bytes(size));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    return value;
  }

  absl::StatusOr<std::string_view> Bytes(std::size_t size) {
    if (size > bytes_.size() - at_) return Damage("the dump ends within it");
    const std::string_view piece = bytes_.substr(at_, size);
    at_ += size;
    return piece;
  }

  absl::Status Push(DumpValue value) {
    values_ += CountValues(value);
    stack_.push_back(std::move(value));
    return absl::OkStatus();
  }

  absl::Status First() {
    if (opcode_ != kProto) return Damage("a Flight Recorder's dump begins with PROTO 2");
    ASSIGN_OR_RETURN(const std::uint64_t protocol, Unsigned(1));
    if (protocol == 2) return absl::OkStatus();
    return Damage(StrCat("this is protocol ", protocol, ", and a Flight Recorder's dump has 2"));
  }

  absl::Status Step() {
    switch (*opcode_) {
      case kNone:
        return Push(DumpValue::None());
      case kNewTrue:
        return Push(DumpValue::Bool(true));
      case kNewFalse:
        return Push(DumpValue::Bool(false));
      case kEmptyList:
        return Push(DumpValue::Empty(Kind::kList));
      case kEmptyDict:
        return Push(DumpValue::Empty(Kind::kDict));
      case kBinInt1:
        return PushNumber(1);
      case kBinInt2:
        return PushNumber(2);
      case kBinInt:
        return PushNumber(4);
      case kLong1:
        return PushLong();
      case kBinFloat:
        return PushFloat();
      case kBinUnicode:
        return PushText();
      case kMark:
        if (marks_.size() == kMaxMarks) return Damage("too many are open");
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case kTuple2:
        return MakePair();
      case kAppends:
        return Close(Kind::kList);
      case kSetItems:
        return Close(Kind::kDict);
      case kBinPut:
      case kLongBinPut:
        return Remember(*opcode_ == kBinPut ? 1 : 4);
      case kBinGet:
      case kLongBinGet:
        return Recall(*opcode_ == kBinGet ? 1 : 4);
      case kStop:
        if (stack_.size() != 1 || !marks_.empty()) return Damage("values are left over");
        stopped_ = true;
        return absl::OkStatus();
      default:
        return Damage("a Flight Recorder's dump has no such opcode; it is not run");
    }
  }

  absl::Status PushNumber(std::size_t size) {
    ASSIGN_OR_RETURN(const std::uint64_t raw, Unsigned(size));
    if (size < 4) return Push(DumpValue::Number(static_cast<std::int64_t>(raw)));
    return Push(DumpValue::Number(std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(raw))));
  }

  absl::Status PushLong() {
    ASSIGN_OR_RETURN(const std::uint64_t size, Unsigned(1));
    if (size > 8) return Damage("the number has more than 64 bits");
    ASSIGN_OR_RETURN(std::uint64_t raw, Unsigned(size));
    const bool negative = size > 0 && (raw >> (8 * size - 1) & 1) != 0;
    if (negative && size < 8) raw |= ~std::uint64_t{0} << (8 * size);
    return Push(DumpValue::Number(std::bit_cast<std::int64_t>(raw)));
  }

  absl::Status PushFloat() {
    ASSIGN_OR_RETURN(const std::string_view raw, Bytes(8));
    std::uint64_t bits = 0;
    for (const char byte : raw) bits = bits << 8 | static_cast<unsigned char>(byte);
    const double value = std::bit_cast<double>(bits);
    const bool fits = std::isfinite(value) && std::abs(value) < 9e18;
    return Push(DumpValue::Number(fits ? static_cast<std::int64_t>(value) : 0));
  }

  absl::Status PushText() {
    ASSIGN_OR_RETURN(const std::uint64_t size, Unsigned(4));
    ASSIGN_OR_RETURN(const std::string_view text, Bytes(size));
    return Push(DumpValue::Text(text));
  }

  absl::Status MakePair() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < floor + 2) return Damage("there are no two values before it");
    DumpValue pair = DumpValue::Empty(Kind::kList);
    pair.items.reserve(2);
    for (std::size_t i = stack_.size() - 2; i < stack_.size(); ++i)
      RETURN_IF_ERROR(MoveInto(pair, stack_[i]));
    stack_.resize(stack_.size() - 2);
    ++values_;
    stack_.push_back(std::move(pair));
    return absl::OkStatus();
  }

  absl::Status MoveInto(DumpValue& container, DumpValue& item) {
    if (item.depth + 1u > kMaxDepth) return Damage("values lie too deep in each other");
    container.depth = std::max(container.depth, static_cast<std::uint8_t>(item.depth + 1));
    container.items.push_back(std::move(item));
    return absl::OkStatus();
  }

  // Puts what lies behind the mark into the list or dict before it.
  absl::Status Close(Kind kind) {
    if (marks_.empty()) return Damage("there is no MARK before it");
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (mark == floor || !stack_[mark - 1].is(kind))
      return Damage(kind == Kind::kList ? "there is no list for it" : "there is no dict for it");
    const std::size_t count = stack_.size() - mark;
    if (kind == Kind::kDict && count % 2 != 0) return Damage("a key has no value");
    DumpValue& container = stack_[mark - 1];
    const bool first = container.items.empty();
    if (first) container.items.reserve(count);
    for (std::size_t i = mark; i < stack_.size(); ++i) {
      if (kind == Kind::kDict && (i - mark) % 2 == 0 && !stack_[i].is(Kind::kText))
        return Damage("a key is not a text");
      RETURN_IF_ERROR(MoveInto(container, stack_[i]));
    }
    // Python would see the new items also in the memo; PyTorch remembers only what is complete.
    if (container.memo >= 0) memo_[static_cast<std::size_t>(container.memo)].reset();
    stack_.resize(mark);
    // An entry is filled at once. A look at a dict after each of its pieces would take time by the
    // square of their number.
    if (kind == Kind::kDict && first && FlightBuilder::IsEntry(stack_.back())) return TakeEntry();
    return absl::OkStatus();
  }

  absl::Status TakeEntry() {
    if (const absl::Status added = builder_.AddEntry(stack_.back()); !added.ok())
      return Damage(MessageOf(added));
    values_ -= CountValues(stack_.back()) - 1;
    stack_.back() = DumpValue::Empty(Kind::kEntry);
    return absl::OkStatus();
  }

  absl::Status Remember(std::size_t size) {
    ASSIGN_OR_RETURN(const std::uint64_t index, Unsigned(size));
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() == floor) return Damage("there is no value before it");
    if (index > memo_.size()) return Damage("the memo's numbers have a gap");
    if (index == memo_.size()) memo_.emplace_back();
    stack_.back().memo = static_cast<std::int32_t>(index);
    values_ += CountValues(stack_.back());
    memo_[index] = stack_.back();
    return absl::OkStatus();
  }

  absl::Status Recall(std::size_t size) {
    ASSIGN_OR_RETURN(const std::uint64_t index, Unsigned(size));
    if (index >= memo_.size() || !memo_[index])
      return Damage(StrCat("there is no complete memo ", index));
    DumpValue copy = *memo_[index];
    copy.memo = -1;
    const std::size_t before = values_;
    RETURN_IF_ERROR(Push(std::move(copy)));
    repeated_ += values_ - before;
    if (repeated_ > kMaxRepeated) return Damage("the memo repeats too many values");
    return absl::OkStatus();
  }

  const std::string_view bytes_;
  std::size_t at_ = 0, begin_ = 0;  // The next byte, and the opcode's offset.
  std::optional<unsigned char> opcode_{};
  bool stopped_ = false;
  std::vector<DumpValue> stack_{};
  std::vector<std::size_t> marks_{};
  std::vector<std::optional<DumpValue>> memo_{};
  std::size_t values_ = 0, repeated_ = 0;
  FlightBuilder builder_{};
};

}  // namespace

bool LooksLikePickle(std::string_view bytes) {
  return bytes.size() >= 2 && static_cast<unsigned char>(bytes[0]) == kProto &&
         static_cast<unsigned char>(bytes[1]) < 16;
}

absl::StatusOr<FlightRecord> ReadFlightPickle(std::string_view bytes) {
  return PickleMachine(bytes).Run();
}

namespace {

using Json = nlohmann::json;

// The deepest is the size of an input: root, entries, entry, input_sizes, size.
constexpr std::size_t kMaxJsonDepth = 8;

DumpValue ValueOf(const Json& json) {
  if (json.is_boolean()) return DumpValue::Bool(json.get<bool>());
  if (json.is_number_unsigned()) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    return DumpValue::Number(static_cast<std::int64_t>(std::min(json.get<std::uint64_t>(), kMost)));
  }
  if (json.is_number_integer()) return DumpValue::Number(json.get<std::int64_t>());
  if (json.is_string()) return DumpValue::Text(json.get_ref<const std::string&>());
  if (json.is_array()) {
    DumpValue list = DumpValue::Empty(DumpValue::Kind::kList);
    for (const Json& item : json) list.items.push_back(ValueOf(item));
    return list;
  }
  if (!json.is_object()) return DumpValue::None();  // Also the durations, which nobody needs.
  DumpValue dict = DumpValue::Empty(DumpValue::Kind::kDict);
  for (const auto& [key, value] : json.items()) {
    dict.items.push_back(DumpValue::Text(key));
    dict.items.push_back(ValueOf(value));
  }
  return dict;
}

}  // namespace

absl::StatusOr<FlightRecord> ReadFlightJson(std::string_view text) {
  if (text.size() > kMaxJsonBytes)
    return absl::DataLossError(StrCat("the dump has more than ", kMaxJsonBytes, " bytes"));
  Json json = ReadJson(text, {.max_depth = kMaxJsonDepth, .max_values = kMaxJsonValues});
  if (json.is_discarded())
    return absl::DataLossError("the dump is not JSON, or has too many values");
  if (!json.is_object()) return absl::DataLossError("the dump is not a JSON object");
  FlightBuilder builder;
  if (const auto entries = json.find("entries"); entries != json.end()) {
    for (const Json& entry : *entries) {
      const DumpValue value = ValueOf(entry);
      if (!FlightBuilder::IsEntry(value))
        return absl::DataLossError("an entry has no process_group or no collective_seq_id");
      RETURN_IF_ERROR(builder.AddEntry(value));
    }
    json.erase(entries);
  }
  return builder.Finish(ValueOf(json));
}

}  // namespace strobe::stall
