// Encodes one event of an XPlane.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace strobe::kineto {

class EventBytes {
 public:
  void Begin(std::int64_t name_id, std::int64_t offset_ps) {
    size_ = 0;
    char* at = Reserve(kMaxStat);
    Put(1 << 3, static_cast<std::uint64_t>(name_id), at);
    Put(2 << 3, static_cast<std::uint64_t>(offset_ps), at);
    End(at);
  }
  void AddDuration(std::int64_t ps) {
    char* at = Reserve(kMaxStat);
    Put(3 << 3, static_cast<std::uint64_t>(ps), at);
    End(at);
  }
  void AddInt(std::int64_t stat, std::int64_t value) {
    AddNumber(stat, 4 << 3, static_cast<std::uint64_t>(value));
  }
  void AddUint(std::int64_t stat, std::uint64_t value) { AddNumber(stat, 3 << 3, value); }
  void AddRef(std::int64_t stat, std::int64_t ref) {
    AddNumber(stat, 7 << 3, static_cast<std::uint64_t>(ref));
  }
  void AddDouble(std::int64_t stat, double value) {
    char* at = Reserve(kMaxStat);
    char* const length = BeginStat(stat, at);
    *at++ = 2 << 3 | 1;
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
    EndStat(length, at);
  }
  void AddText(std::int64_t stat, std::string_view text) {
    char* at = Reserve(2 * kMaxStat + text.size());
    char head[2 * 11];
    char* end = head;
    Put(1 << 3, static_cast<std::uint64_t>(stat), end);
    Put(5 << 3 | 2, text.size(), end);
    const auto head_size = static_cast<std::size_t>(end - head);
    Put(kStats, head_size + text.size(), at);
    std::memcpy(at, head, head_size);
    if (!text.empty()) std::memcpy(at + head_size, text.data(), text.size());
    End(at + head_size + text.size());
  }

  // Adds fields that are encoded already.
  void AddEncoded(std::string_view fields) {
    char* const at = Reserve(fields.size() + 1);
    std::memcpy(at, fields.data(), fields.size());
    size_ += fields.size();
  }
  void Clear() { size_ = 0; }
  void Assign(std::string_view fields) {
    Clear();
    AddEncoded(fields);
  }

  std::string_view bytes() const { return {buffer_.data(), size_}; }

 private:
  static constexpr char kStats = 4 << 3 | 2;
  // No stat with a number takes more bytes: it has a tag, a length of one byte, and two fields of
  // at most 11 bytes each.
  static constexpr std::size_t kMaxStat = 32;

  char* Reserve(std::size_t bytes) {
    if (buffer_.size() < size_ + bytes) buffer_.resize((size_ + bytes) * 2);
    return buffer_.data() + size_;
  }
  void End(const char* at) { size_ = static_cast<std::size_t>(at - buffer_.data()); }
  static void PutVarint(std::uint64_t value, char*& at) {
    for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
    *at++ = static_cast<char>(value);
  }
  static void Put(char tag, std::uint64_t value, char*& at) {
    *at++ = tag;
    PutVarint(value, at);
  }
  // A number's stat is so short that its length takes one byte, which is filled in at the end.
  static char* BeginStat(std::int64_t stat, char*& at) {
    *at++ = kStats;
    char* const length = at++;
    Put(1 << 3, static_cast<std::uint64_t>(stat), at);
    return length;
  }
  void EndStat(char* length, const char* at) {
    *length = static_cast<char>(at - length - 1);
    End(at);
  }
  void AddNumber(std::int64_t stat, char tag, std::uint64_t value) {
    char* at = Reserve(kMaxStat);
    char* const length = BeginStat(stat, at);
    Put(tag, value, at);
    EndStat(length, at);
  }

  std::vector<char> buffer_ = std::vector<char>(4096);
  std::size_t size_ = 0;
};

}  // namespace strobe::kineto
