// The sidecar's end of one thread's ring. The program may be killed in the middle of a write, or be
// hostile: whatever lies in the memory, a call stays within the ring and ends after at most as many
// steps as the ring has words.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "agent/wire/layout.h"

namespace strobe::wire {

struct ScopeRecord {
  std::uint8_t level = 0;
  std::uint64_t begin = 0, end = 0;  // Ticks.
  std::string_view text{};           // Until the next call only.
};

struct ThreadInfo {
  std::uint32_t id = 0;
  std::array<char, kThreadNameBytes + 1> name{};
};

// Where a record is copied to before it is known to be whole. One serves many readers.
using RecordBuffer = std::array<std::uint64_t, kLargestRecordWords>;

class RingReader {
 public:
  RingReader(const RingHeader* header, const std::atomic<std::uint64_t>* data, std::uint64_t words)
      : header_(header), data_(data), words_(words) {
    LoadThread();
    SkipToNow();
  }

  // What was written until now is not read, and counts as neither read nor lost.
  void SkipToNow() {
    // Position and number must belong together: nothing is being written when both ends agree. A
    // writer that is busy all the time, or was killed in mid-write, is taken as it is.
    for (int tries = 0; tries < 1000; ++tries) {
      position_ = header_->head.load(std::memory_order_acquire);
      next_ = header_->made.load(std::memory_order_acquire);
      if (header_->claimed.load(std::memory_order_relaxed) == position_) break;
    }
  }
  // Back to the ring's very first record. What is not there any more counts as lost.
  void SkipToStart() {
    const std::uint64_t head = header_->head.load(std::memory_order_acquire);
    position_ = head > words_ && head <= kMaxPosition ? NextBlock(head - words_) : 0;
    next_ = 0;
  }
  // Back to the oldest record that is still there: what the ring kept of the last seconds. True
  // when there had been older ones.
  bool SkipToOldest() {
    SkipToStart();
    adopt_ = position_ > 0;
    return adopt_;
  }

  // Whose records Drain hands over at present.
  const ThreadInfo& thread() const { return thread_; }
  // The ring's positions cannot be those of a writer of ours. Nothing is read any more.
  bool damaged() const { return damaged_; }

  // Hands over every whole scope; `sink(const ScopeRecord&)`. Returns how many.
  template <typename Sink>
  std::uint64_t Drain(RecordBuffer& buffer, const Sink& sink) {
    std::uint64_t count = 0;
    DrainRecords(buffer,
                 [&](RecordType type, std::uint8_t level, std::span<const std::uint64_t> payload) {
                   constexpr std::size_t kFixed = kScopeFixedWords - 1;
                   if (type != RecordType::kScope || payload.size() < kFixed ||
                       payload[2] > (payload.size() - kFixed) * 8)
                     return;
                   sink(ScopeRecord{level,
                                    payload[0],
                                    payload[1],
                                    {reinterpret_cast<const char*>(payload.data() + kFixed),
                                     static_cast<std::size_t>(payload[2])}});
                   ++count;
                 });
    return count;
  }

  // Hands over every whole record but pads and threads;
  // `sink(RecordType, level, span of the words behind the head)`.
  template <typename Sink>
  void DrainRecords(RecordBuffer& buffer, const Sink& sink) {
    const std::uint64_t head = header_->head.load(std::memory_order_acquire);
    // A ring of our writer needs fewer steps; one whose positions change all the time must end too.
    // A head or a number that was forged when we began and is right again has fallen since.
    damaged_ = damaged_ || head < position_ || made() < next_;
    for (std::uint64_t step = 0; position_ < head && !Damaged(head) && step < words_; ++step) {
      if (Overrun(position_)) {
        Resync();
        continue;
      }
      const auto first = std::bit_cast<RecordHead>(Word(position_));
      const std::uint64_t left = kBlockWords - position_ % kBlockWords;
      const std::uint64_t size = first.words;
      const bool sane = size > 0 && size <= left && position_ + size <= head &&
                        (size <= kLargestRecordWords || first.type == RecordType::kPad);
      if (sane && first.type != RecordType::kPad) {
        for (std::uint64_t i = 0; i < size; ++i) buffer[i] = Word(position_ + i);
      }
      // Only now is it known whether what was read was still whole.
      if (Overrun(position_)) {
        Resync();
        continue;
      }
      if (!sane) {  // Nothing that our writer writes; the next block is a new chance.
        position_ = NextBlock(position_ + 1);
        continue;
      }
      position_ += size;
      if (first.type == RecordType::kPad) continue;
      if (first.type == RecordType::kThread) {
        if (size != kThreadWords) continue;
        thread_.id = static_cast<std::uint32_t>(buffer[1]);
        std::memcpy(thread_.name.data(), &buffer[2], kThreadNameBytes);
        continue;
      }
      if (HasNumber(first.type)) Count(first.sequence);
      sink(first.type, first.level,
           std::span<const std::uint64_t>(buffer.data() + 1, static_cast<std::size_t>(size - 1)));
    }
  }

  // Records that were overwritten before they were read, up to the last one read.
  std::uint64_t lost() const { return lost_; }
  // Records made so far.
  std::uint64_t made() const { return header_->made.load(std::memory_order_acquire); }
  // Of `made` records those that Drain has not come to yet, whether still there or overwritten.
  std::uint64_t unseen(std::uint64_t made) const { return made - std::min(made, next_); }
  std::uint64_t unseen() const { return unseen(made()); }
  // Records that the program could not write for want of space, since it began.
  std::uint64_t dropped() const { return header_->dropped.load(std::memory_order_relaxed); }

 private:
  static std::uint64_t NextBlock(std::uint64_t position) {
    return (position + kBlockWords - 1) / kBlockWords * kBlockWords;
  }
  std::uint64_t Word(std::uint64_t position) const {
    // Acquire: a word of a newer record brings along that the record was claimed.
    return data_[position & (words_ - 1)].load(std::memory_order_acquire);
  }
  // The writer claims words before it moves its head over them, and neither ever falls.
  bool Damaged(std::uint64_t head) {
    const std::uint64_t claimed = header_->claimed.load(std::memory_order_relaxed);
    damaged_ = damaged_ || head > kMaxPosition || claimed > kMaxPosition || claimed < head;
    return damaged_;
  }
  bool Overrun(std::uint64_t position) const {
    return header_->claimed.load(std::memory_order_relaxed) > position + words_;
  }
  void LoadThread() {
    thread_.id = header_->thread_id.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < kThreadNameBytes / 8; ++i) {
      const std::uint64_t word = header_->thread_name[i].load(std::memory_order_relaxed);
      std::memcpy(thread_.name.data() + 8 * i, &word, 8);
    }
  }
  void Resync() {
    LoadThread();  // The record that said whose ring it is may be among those that are gone.
    const std::uint64_t claimed =
        std::clamp(header_->claimed.load(std::memory_order_relaxed), words_, kMaxPosition);
    // A block ahead of the writer, so that it does not catch up at once.
    position_ = std::max(position_ + 1, NextBlock(claimed - words_) + kBlockWords);
  }
  void Count(std::uint32_t sequence) {
    if (std::exchange(adopt_, false)) {
      const std::uint64_t made = header_->made.load(std::memory_order_relaxed);
      next_ = made - (static_cast<std::uint32_t>(made) - sequence);
    }
    const std::uint32_t gap = sequence - static_cast<std::uint32_t>(next_);
    // Nothing is lost when the number is one that SkipToNow has counted already.
    if (gap < 1u << 31) lost_ += gap;
    next_ +=
        static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(gap)) + 1);
  }

  const RingHeader* const header_;
  const std::atomic<std::uint64_t>* const data_;
  const std::uint64_t words_;
  ThreadInfo thread_;
  std::uint64_t position_ = 0;
  std::uint64_t next_ = 0;  // Number of the record that is expected.
  std::uint64_t lost_ = 0;
  bool adopt_ = false;  // Take the next record's number as it is.
  bool damaged_ = false;
};

}  // namespace strobe::wire
