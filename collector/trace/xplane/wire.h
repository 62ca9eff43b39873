// Reads and writes protobuf's wire format. The reader stays within its input, reports malformed
// data as an error and copies nothing.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace strobe::wire {

// Walks the fields of one message:
//   Reader reader(bytes);
//   while (reader.Next()) { if (reader.field() == 2) name = reader.bytes(); }
//   RETURN_IF_ERROR(reader.status());
class Reader {
 public:
  explicit Reader(std::string_view message) : rest_(message), whole_(message.size()) {}

  // Advances to the next field. False at the end and on malformed input; see status().
  bool Next() {
    // The fast path for nearly all fields of a trace: a tag of one byte followed by a varint or a
    // short length. Most of the time for reading a trace is spent here.
    const auto* at = reinterpret_cast<const unsigned char*>(rest_.data());
    const auto* end = at + rest_.size();
    if (end - at >= 2) {
      const unsigned tag = *at++;
      const unsigned type = tag & 7;
      if (tag < 0x80 && tag >> 3 != 0 && (type == 0 || type == 2)) {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 70 && at != end; shift += 7) {
          const std::uint64_t byte = *at++;
          value |= (byte & 0x7f) << shift;
          if (byte < 0x80) return Take(tag, type, value, reinterpret_cast<const char*>(at));
        }
      }
    }
    return NextOfAny();
  }
  const absl::Status& status() const { return status_; }

  std::uint32_t field() const { return field_; }
  // The value of a varint or fixed-width field; 0 for other fields.
  std::uint64_t value() const { return value_; }
  std::int64_t signed_value() const { return static_cast<std::int64_t>(value_); }
  // The content of a length-delimited field; empty for other fields.
  std::string_view bytes() const { return bytes_; }
  bool is_bytes() const { return type_ == 2; }
  // Appends the values of a repeated integer field, which may be packed. DataLoss if it is
  // malformed.
  absl::Status AppendIntegers(std::vector<std::int64_t>& values) const;
  // The bytes of the field in the input, including its tag.
  std::string_view raw() const { return raw_; }

 private:
  bool Take(unsigned tag, unsigned type, std::uint64_t value, const char* behind) {
    const char* begin = rest_.data();
    const auto head = static_cast<std::size_t>(behind - begin);
    if (type == 2 && value > rest_.size() - head) return NextOfAny();
    field_ = tag >> 3;
    type_ = type;
    value_ = type == 0 ? value : 0;
    const std::size_t size = type == 2 ? static_cast<std::size_t>(value) : 0;
    bytes_ = std::string_view(behind, size);
    raw_ = std::string_view(begin, head + size);
    rest_.remove_prefix(head + size);
    return true;
  }
  bool NextOfAny();
  bool Fail(std::string_view why);
  bool ReadVarint(std::uint64_t& value);

  std::string_view rest_;
  std::size_t whole_;
  std::uint32_t field_ = 0;
  std::uint32_t type_ = 0;
  std::uint64_t value_ = 0;
  std::string_view bytes_;
  std::string_view raw_;
  absl::Status status_;
};

void AppendVarint(std::uint64_t value, std::string& out);
void AppendVarintField(std::uint32_t field, std::uint64_t value, std::string& out);
void AppendBytesField(std::uint32_t field, std::string_view bytes, std::string& out);
void AppendDoubleField(std::uint32_t field, double value, std::string& out);

}  // namespace strobe::wire
