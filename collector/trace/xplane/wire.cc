#include "collector/trace/xplane/wire.h"

#include <cstring>

#include "collector/trace/xplane/varint.h"
#include "common/base/strings.h"

namespace strobe::wire {

bool Reader::Fail(std::string_view why) {
  status_ =
      absl::DataLossError(StrCat("damaged or cut at byte ", whole_ - rest_.size(), ": ", why));
  rest_ = {};
  return false;
}

bool Reader::ReadVarint(std::uint64_t& value) {
  value = 0;
  constexpr std::size_t kMaxVarintBytes = 10;  // As many as 64 bits take.
  for (std::size_t i = 0; i < rest_.size() && i < kMaxVarintBytes; ++i) {
    const auto byte = static_cast<unsigned char>(rest_[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      rest_.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool Reader::NextOfAny() {
  if (rest_.empty()) return false;
  const char* begin = rest_.data();
  std::uint64_t tag = 0;
  if (!ReadVarint(tag)) return Fail("truncated tag");
  if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) return Fail("field number out of range");
  field_ = static_cast<std::uint32_t>(tag >> 3);
  type_ = static_cast<std::uint32_t>(tag & 7);
  value_ = 0;
  bytes_ = {};
  switch (type_) {
    case 0:
      if (!ReadVarint(value_)) return Fail("truncated varint");
      break;
    case 1:
    case 5: {
      const std::size_t width = type_ == 1 ? 8 : 4;
      if (rest_.size() < width) return Fail("truncated fixed-width value");
      // Correct on little-endian machines, the only ones that Strobe supports.
      std::memcpy(&value_, rest_.data(), width);
      rest_.remove_prefix(width);
      break;
    }
    case 2: {
      std::uint64_t size = 0;
      if (!ReadVarint(size)) return Fail("truncated length");
      if (size > rest_.size()) return Fail("length past the end");
      bytes_ = rest_.substr(0, size);
      rest_.remove_prefix(size);
      break;
    }
    default:  // Groups (3 and 4) too: no message that is read here has any.
      return Fail("unknown wire type");
  }
  raw_ = std::string_view(begin, static_cast<std::size_t>(rest_.data() - begin));
  return true;
}

absl::Status Reader::AppendIntegers(std::vector<std::int64_t>& values) const {
  // A repeated number may be packed or not, whatever its field declares.
  if (!is_bytes()) {
    values.push_back(signed_value());
    return absl::OkStatus();
  }
  Reader packed(bytes_);
  std::uint64_t value = 0;
  while (!packed.rest_.empty() && packed.status_.ok()) {
    if (packed.ReadVarint(value))
      values.push_back(static_cast<std::int64_t>(value));
    else
      packed.Fail("truncated varint");
  }
  return packed.status_;
}

void AppendVarint(std::uint64_t value, std::string& out) {
  char bytes[kMaxVarint];
  char* end = bytes;
  PutVarint(value, end);
  out.append(bytes, static_cast<std::size_t>(end - bytes));
}

void AppendVarintField(std::uint32_t field, std::uint64_t value, std::string& out) {
  AppendVarint(static_cast<std::uint64_t>(field) << 3, out);
  AppendVarint(value, out);
}

void AppendBytesField(std::uint32_t field, std::string_view bytes, std::string& out) {
  AppendVarint(static_cast<std::uint64_t>(field) << 3 | 2, out);
  AppendVarint(bytes.size(), out);
  out.append(bytes);
}

void AppendDoubleField(std::uint32_t field, double value, std::string& out) {
  AppendVarint(static_cast<std::uint64_t>(field) << 3 | 1, out);
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof raw);
}

}  // namespace strobe::wire
