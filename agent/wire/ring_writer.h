// Writes one thread's ring; used by the program. C++ standard library only. Never blocks and never
// allocates.
//
// If the reader is too slow, new records overwrite old ones: a full ring holds the newest records,
// and the reader learns from their numbers how many it missed.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "agent/wire/cut_name.h"
#include "agent/wire/layout.h"

namespace strobe::wire {

// The size of the longest beginning of the text that has at most `max` bytes and does not end
// within a UTF-8 character.
inline std::size_t WholeCharacters(std::string_view text, std::size_t max) {
  if (text.size() <= max) return text.size();
  while (max > 0 && (static_cast<unsigned char>(text[max]) & 0xc0) == 0x80) --max;
  return max;
}

// Used by one thread at a time. The memory must outlive the object.
class RingWriter {
 public:
  // `data` has `words` words, a power of two. Writing continues behind existing records.
  RingWriter(RingHeader* header, std::atomic<std::uint64_t>* data, std::uint64_t words)
      : header_(header),
        data_(data),
        mask_(words - 1),
        max_text_(std::min<std::uint64_t>(kMaxScopeText, words * 8 / 4)),
        position_(header->head.load(std::memory_order_relaxed)),
        made_(header->made.load(std::memory_order_relaxed)) {}

  // Declares that space for the first `words` words of the data is reserved. SpaceIsShort then
  // becomes true when the next record may not fit. Without a call, all space counts as reserved.
  void SpaceReserved(std::uint64_t words) {
    constexpr std::uint64_t kMaxStep = 2 * kBlockWords;  // A pad record and a record.
    space_until_ = words > mask_ ? ~0ull : words - kMaxStep;
  }
  bool SpaceIsShort() const { return position_ >= space_until_; }
  // Like SpaceIsShort(), for a scope with a text of `size` bytes.
  bool SpaceIsShort(std::size_t size) const {
    // Words of the text, as many again for padding at the ends of blocks, and the last record.
    const std::uint64_t words = std::min(size, max_text_) / 4;
    return space_until_ != ~0ull && position_ + words >= space_until_;
  }

  // Call it first when a thread takes the ring over.
  void Thread(std::uint32_t id, const char (&name)[kThreadNameBytes]) {
    std::atomic<std::uint64_t>* out = Claim(kThreadWords, RecordType::kThread, 0);
    Put(out + 1, id);
    for (std::size_t i = 0; i < kThreadNameBytes / 8; ++i) {
      std::uint64_t word;
      std::memcpy(&word, name + 8 * i, 8);
      Put(out + 2 + i, word);
      header_->thread_name[i].store(word, std::memory_order_relaxed);
    }
    header_->thread_id.store(id, std::memory_order_relaxed);
    Publish(kThreadWords, 0);
  }
  // Writes a record of fixed size; see device_records.h.
  template <typename T>
  void Record(RecordType type, const T& payload) {
    constexpr std::size_t kWords = sizeof(T) / 8;
    std::atomic<std::uint64_t>* out = Claim(1 + kWords, type, 0);
    // Word by word from the payload, without a loop: processors wait when a copy of it is loaded in
    // larger pieces than those it was stored in.
    const auto put = [&]<std::size_t... kWord>(std::index_sequence<kWord...>) {
      const char* const from = reinterpret_cast<const char*>(&payload);
      (Put(out + 1 + kWord, Load<std::uint64_t>(from + 8 * kWord)), ...);
    };
    put(std::make_index_sequence<kWords>());
    Publish(1 + kWords, HasNumber(type) ? 1 : 0);
  }
  // Defines the text of `number`. A text beyond kMaxTextBytes bytes is cut; see cut_name.h.
  void Text(std::uint32_t number, std::string_view text) {
    std::array<char, kMaxTextBytes> shortened;
    if (text.size() > kMaxTextBytes) {
      const std::array<char, kCutEndBytes> end = CutEnd(text);
      const std::size_t size = WholeCharacters(text, kMaxTextBytes - end.size());
      std::memcpy(shortened.data(), text.data(), size);
      std::memcpy(shortened.data() + size, end.data(), end.size());
      text = {shortened.data(), size + end.size()};
    }
    const std::size_t words = kTextFixedWords + (text.size() + 7) / 8;
    std::atomic<std::uint64_t>* out = Claim(words, RecordType::kText, 0);
    Put(out + 1, static_cast<std::uint64_t>(text.size()) << 32 | number);
    PutText(out + kTextFixedWords, text.data(), text.size());
    Publish(words, 0);
  }
  // The number of words written so far.
  std::uint64_t position() const { return position_; }

  // Writes a scope. A text beyond kMaxScopeText bytes is cut at its end, where metadata is:
  // "name#key=value...#".
  void Scope(std::uint8_t level, std::uint64_t begin, std::uint64_t end, std::string_view text) {
    if (__builtin_expect(text.size() > kMaxTextBytes, 0))
      PutLongScope(level, begin, end, text);
    else
      PutScope(level, begin, end, text, 0);
  }

 private:
  // Not inlined, so that it costs usual scopes nothing.
  [[gnu::noinline, gnu::cold]] void PutLongScope(std::uint8_t level, std::uint64_t begin,
                                                 std::uint64_t end, std::string_view text) {
    constexpr std::string_view kCutMetadata = "...#", kCutName = "...";
    std::string_view close;
    if (text.size() > max_text_) {
      header_->cut.store(header_->cut.load(std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
      close = text.back() == '#' ? kCutMetadata : kCutName;
      text = text.substr(0, WholeCharacters(text, max_text_ - close.size()));
    }
    // The head moves over the parts together with the scope, so that a reader sees all or nothing.
    std::uint64_t before = 0;
    while (text.size() > kMaxTextBytes - close.size()) {
      const std::size_t size = std::min(text.size(), kMaxPartBytes);
      const std::size_t words = kPartFixedWords + (size + 7) / 8;
      std::atomic<std::uint64_t>* out = Claim(words, RecordType::kPart, level);
      Put(out + 1, size);
      PutText(out + kPartFixedWords, text.data(), size);
      position_ += words;
      before += size;
      text.remove_prefix(size);
    }
    std::array<char, kMaxTextBytes> last;
    std::memcpy(last.data(), text.data(), text.size());
    std::memcpy(last.data() + text.size(), close.data(), close.size());
    PutScope(level, begin, end, {last.data(), text.size() + close.size()}, before);
  }
  void PutScope(std::uint8_t level, std::uint64_t begin, std::uint64_t end, std::string_view text,
                std::uint64_t before) {
    const std::size_t words = kScopeFixedWords + (text.size() + 7) / 8;
    std::atomic<std::uint64_t>* out = Claim(words, RecordType::kScope, level);
    Put(out + 1, begin);
    Put(out + 2, end);
    Put(out + 3, before << 32 | text.size());
    PutText(out + kScopeFixedWords, text.data(), text.size());
    Publish(words, 1);
  }

  // Release, so that a reader that sees a word of the new record also sees the claim for it.
  static void Put(std::atomic<std::uint64_t>* to, std::uint64_t word) {
    to->store(word, std::memory_order_release);
  }

  static void PutText(std::atomic<std::uint64_t>* out, const char* text, std::size_t size) {
    std::size_t done = 0;
    for (; done + 8 <= size; done += 8) {
      std::uint64_t word;
      std::memcpy(&word, text + done, 8);
      Put(out++, word);
    }
    if (done < size) Put(out, Tail(text + done, size - done));
  }

  // Returns 1 to 7 bytes as a word. Uses two loads that may overlap instead of memcpy, whose call
  // costs more than the rest of the record.
  static std::uint64_t Tail(const char* text, std::size_t size) {
    static_assert(std::endian::native == std::endian::little);
    if (size >= 4)
      return Load<std::uint32_t>(text) | Load<std::uint32_t>(text + size - 4) << 8 * (size - 4);
    if (size >= 2)
      return Load<std::uint16_t>(text) | Load<std::uint16_t>(text + size - 2) << 8 * (size - 2);
    return static_cast<unsigned char>(*text);
  }
  template <typename T>
  static std::uint64_t Load(const char* text) {
    T value;
    std::memcpy(&value, text, sizeof value);
    return value;
  }

  std::atomic<std::uint64_t>* Claim(std::size_t words, RecordType type, std::uint8_t level) {
    const std::size_t left = kBlockWords - position_ % kBlockWords;
    if (words > left) {
      header_->claimed.store(position_ + left, std::memory_order_relaxed);
      Put(data_ + (position_ & mask_),
          std::bit_cast<std::uint64_t>(RecordHead{.words = static_cast<std::uint16_t>(left),
                                                  .type = RecordType::kPad,
                                                  .level = 0,
                                                  .sequence = 0}));
      position_ += left;
    }
    header_->claimed.store(position_ + words, std::memory_order_relaxed);
    std::atomic<std::uint64_t>* out = data_ + (position_ & mask_);
    Put(out,
        std::bit_cast<std::uint64_t>(RecordHead{.words = static_cast<std::uint16_t>(words),
                                                .type = type,
                                                .level = level,
                                                .sequence = static_cast<std::uint32_t>(made_)}));
    return out;
  }

  void Publish(std::size_t words, std::uint64_t numbered) {
    position_ += words;
    made_ += numbered;
    header_->made.store(made_, std::memory_order_release);
    header_->head.store(position_, std::memory_order_release);
  }

  RingHeader* const header_;
  std::atomic<std::uint64_t>* const data_;
  const std::uint64_t mask_;
  const std::size_t max_text_;
  std::uint64_t position_, made_;
  std::uint64_t space_until_ = ~0ull;
};

}  // namespace strobe::wire
