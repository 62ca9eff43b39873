// Reads one thread's ring; used by the sidecar. The program may be killed in the middle of a write,
// or be hostile. Whatever the memory contains, a call stays within the ring and ends after at most
// as many steps as the ring has words.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "agent/wire/layout.h"

namespace strobe::wire {

struct ScopeRecord {
  std::uint8_t level = 0;
  std::uint64_t begin = 0, end = 0;  // Ticks.
  std::string_view text{};           // Valid until the next call; at most kMaxScopeText bytes.
};

struct ThreadInfo {
  std::uint32_t id = 0;
  std::array<char, kThreadNameBytes + 1> name{};
};

// A record is copied here before it is known to be complete. One buffer can serve many readers.
using RecordBuffer = std::array<std::uint64_t, kMaxRecordWords>;

class RingReader {
 public:
  RingReader(const RingHeader* header, const std::atomic<std::uint64_t>* data, std::uint64_t words)
      : header_(header), data_(data), words_(words) {
    LoadThread();
    SkipToNow();
  }

  // Skips all records up to now. They count neither as read nor as lost.
  void SkipToNow() {
    // Position and record number must match, which is certain if no write is in progress. After
    // 1000 tries, for a writer that is busy all the time or was killed during a write, the last
    // values are used.
    parts_.clear();
    for (int tries = 0; tries < 1000; ++tries) {
      position_ = header_->head.load(std::memory_order_acquire);
      next_ = header_->made.load(std::memory_order_acquire);
      if (header_->claimed.load(std::memory_order_relaxed) == position_) break;
    }
  }
  // Goes back to the ring's first record. Records that were overwritten count as lost.
  void SkipToStart() {
    const std::uint64_t head = header_->head.load(std::memory_order_acquire);
    parts_.clear();
    position_ = head > words_ && head <= kMaxPosition ? NextBlock(head - words_) : 0;
    next_ = 0;
  }
  // Goes to the record at the position `from` or, if the ring does not have that any more, to the
  // oldest that it has. Returns whether the record at `from` is gone; records that are missed so do
  // not count as lost. The oldest `spare` words, which are overwritten next, are left out.
  bool SkipToOldest(std::uint64_t from = 0, std::uint64_t spare = 0) {
    const std::uint64_t head = header_->head.load(std::memory_order_acquire);
    const std::uint64_t held = words_ - std::min(words_, spare);
    parts_.clear();
    next_ = 0;
    position_ = head > held && head <= kMaxPosition ? NextBlock(head - held) : 0;
    const bool kept = from >= position_ && from <= head;
    if (kept) position_ = from;
    adopt_ = position_ > 0;
    return !kept;
  }

  // Where the next record is read, in words since the ring began.
  std::uint64_t position() const { return position_; }
  // The thread whose records Drain currently delivers.
  const ThreadInfo& thread() const { return thread_; }
  // True if no correct writer can produce the ring's positions. Such a ring is not read any
  // further.
  bool damaged() const { return damaged_; }

  // Calls `sink(const ScopeRecord&)` for every complete scope and returns their number.
  template <typename Sink>
  std::uint64_t Drain(RecordBuffer& buffer, const Sink& sink) {
    std::uint64_t count = 0;
    DrainRecords(buffer, [&](RecordType type, std::uint8_t level,
                             std::span<const std::uint64_t> payload) {
      if (type == RecordType::kPart) return AddPart(payload);
      constexpr std::size_t kFixed = kScopeFixedWords - 1;
      if (type != RecordType::kScope || payload.size() < kFixed) return;
      const std::optional<std::string_view> text = WholeText(payload[2], payload.subspan(kFixed));
      if (text) {
        sink(ScopeRecord{.level = level, .begin = payload[0], .end = payload[1], .text = *text});
        ++count;
      }
      parts_.clear();
    });
    return count;
  }

  // Calls `sink(RecordType, level, payload)` for every complete record except pads and threads.
  // Texts that consist of parts are not joined.
  // `payload` is the span of words behind the head.
  template <typename Sink>
  void DrainRecords(RecordBuffer& buffer, const Sink& sink) {
    const std::uint64_t head = header_->head.load(std::memory_order_acquire);
    // The limit on steps ends the loop even if the positions change all the time. A correct writer
    // needs fewer steps. Positions that decreased since the last call show a forged value.
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
                        (size <= kMaxRecordWords || first.type == RecordType::kPad);
      if (sane && first.type != RecordType::kPad) {
        for (std::uint64_t i = 0; i < size; ++i) buffer[i] = Word(position_ + i);
      }
      // The copy is valid only if the writer has not overwritten the record meanwhile.
      if (Overrun(position_)) {
        Resync();
        continue;
      }
      if (!sane) {  // No correct writer produces this. Reading continues at the next block.
        position_ = NextBlock(position_ + 1);
        parts_.clear();
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

  // The part of the ring, from 0 to 1, that has records which Drain has not reached.
  double filled() const {
    const std::uint64_t head = header_->head.load(std::memory_order_acquire);
    const std::uint64_t ahead = head - std::min(head, position_);
    return std::min(1.0, static_cast<double>(ahead) / static_cast<double>(words_));
  }
  // The number of records that were overwritten before they were read, up to the last record read.
  std::uint64_t lost() const { return lost_; }
  // The number of records written so far.
  std::uint64_t made() const { return header_->made.load(std::memory_order_acquire); }
  // The number of records, out of `made`, that Drain has not reached, whether they still exist or
  // not.
  std::uint64_t unseen(std::uint64_t made) const { return made - std::min(made, next_); }
  std::uint64_t unseen() const { return unseen(made()); }
  // The number of records that the program could not write because the volume was full.
  std::uint64_t dropped() const { return header_->dropped.load(std::memory_order_relaxed); }
  // The number of scopes of which the program cut a part of the text.
  std::uint64_t cut() const { return header_->cut.load(std::memory_order_relaxed); }

 private:
  // The first `size` bytes of the words; none when there are not so many.
  static std::optional<std::string_view> TextOf(std::span<const std::uint64_t> words,
                                                std::uint64_t size) {
    if (size > words.size() * 8) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(words.data()),
                            static_cast<std::size_t>(size));
  }
  void AddPart(std::span<const std::uint64_t> payload) {
    if (payload.empty()) return;
    const auto text = TextOf(payload.subspan(1), payload[0]);
    if (text && parts_.size() + text->size() <= kMaxScopeText) parts_.append(*text);
  }
  // The text of a scope, joined with the parts before it. A scope of which parts were overwritten
  // counts as lost.
  std::optional<std::string_view> WholeText(std::uint64_t sizes,
                                            std::span<const std::uint64_t> words) {
    const std::uint64_t before = sizes >> 32;
    const auto text = TextOf(words, sizes & 0xffff'ffff);
    if (!text || before == 0) return text;
    if (parts_.size() != before || parts_.size() + text->size() > kMaxScopeText) {
      ++lost_;
      return std::nullopt;
    }
    return parts_.append(*text);
  }
  static std::uint64_t NextBlock(std::uint64_t position) {
    return (position + kBlockWords - 1) / kBlockWords * kBlockWords;
  }
  std::uint64_t Word(std::uint64_t position) const {
    // Acquire: reading a word of a newer record makes the writer's claim for that record visible.
    return data_[position & (words_ - 1)].load(std::memory_order_acquire);
  }
  // The writer claims words before it moves its head over them, and neither position decreases.
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
    parts_.clear();
    LoadThread();  // The record that names the thread may have been overwritten.
    const std::uint64_t claimed =
        std::clamp(header_->claimed.load(std::memory_order_relaxed), words_, kMaxPosition);
    // One block ahead of the oldest data, so that the writer does not catch up at once.
    position_ = std::max(position_ + 1, NextBlock(claimed - words_) + kBlockWords);
  }
  void Count(std::uint32_t sequence) {
    if (std::exchange(adopt_, false)) {
      const std::uint64_t made = header_->made.load(std::memory_order_relaxed);
      next_ = made - (static_cast<std::uint32_t>(made) - sequence);
    }
    const std::uint32_t gap = sequence - static_cast<std::uint32_t>(next_);
    // A sequence number before the expected one means that SkipToNow has counted the record
    // already.
    if (gap < 1u << 31) lost_ += gap;
    next_ +=
        static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(gap)) + 1);
  }

  const RingHeader* const header_;
  const std::atomic<std::uint64_t>* const data_;
  const std::uint64_t words_;
  ThreadInfo thread_;
  std::string parts_;  // The text of the next scope as far as it came.
  std::uint64_t position_ = 0;
  std::uint64_t next_ = 0;  // Number of the next expected record.
  std::uint64_t lost_ = 0;
  bool adopt_ = false;  // Take the next record's number as the expected one.
  bool damaged_ = false;
};

}  // namespace strobe::wire
