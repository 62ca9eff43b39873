// Splits a trace file into the JSON objects of its events, without parsing them. The file comes in
// pieces; the memory does not depend on its size. A file that is damaged is read on behind the
// damage.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collector/kineto/bracket_masks.h"
#include "collector/kineto/top_level.h"

namespace strobe::kineto {

class EventSplitter {
 public:
  // Larger events are skipped.
  static constexpr std::size_t kMaxEventBytes = 2 << 20;
  // This many bytes behind an event may be read, and the byte before it may be changed.
  static constexpr std::size_t kPadding = 64;

  // Where an event is in the buffer. Adjacent ones are separated by white space and a comma, or the
  // file is damaged there.
  struct Extent {
    std::uint32_t begin = 0, end = 0;
  };

  EventSplitter();

  // The place for the next bytes of the file, never empty. Invalidates events().
  std::span<char> Room();
  void Commit(std::size_t bytes) { end_ += bytes; }
  // There are no more bytes.
  void EndInput();

  enum class Found { kMoreNeeded, kEvents, kMember, kNotJson, kEnd };
  Found Next();

  // Call it after kEvents. The events are in the order of the file.
  std::span<const Extent> events() const { return events_; }
  char* buffer() const { return buffer_.get(); }
  // The place of the buffer's first byte in the file. Modulo 2^64, because the buffer begins with
  // padding.
  std::uint64_t offset() const { return offset_; }
  // Call it after kMember.
  const TopLevel& top() const { return top_; }

  // Reads again from an event that could not be parsed. A quote may be missing, so that everything
  // behind it looks like text. JSON has no line breaks in texts, so from here on a line break ends
  // a text.
  void RereadFrom(std::uint32_t begin);

  std::uint64_t too_large() const { return too_large_; }
  // Events that a line break in a text ended, and brackets that close nothing.
  std::uint64_t broken() const { return broken_; }
  std::uint64_t stray_brackets() const { return stray_brackets_; }
  // Did the file end inside of an event?
  bool cut() const { return cut_; }
  bool read_events() const { return read_events_; }
  // Was RereadFrom called?
  bool careful() const { return careful_; }

 private:
  // How much is read at once. The parser's indexes of it fit into a core's cache.
  static constexpr std::size_t kWindow = 256 << 10;
  static constexpr std::size_t kNone = ~std::size_t{0};

  Found NextEvents();
  std::size_t Scan(std::size_t at);
  std::size_t EndBrokenText(std::size_t at);
  void Skip();

  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t scan_ = 0, end_ = 0;  // What was looked at, and what was read.
  std::uint64_t offset_ = 0;
  bool input_ended_ = false;

  TopLevel top_;
  bool in_events_ = false, read_events_ = false;
  bool array_ended_ = false;
  StringState strings_;
  std::uint64_t depth_ = 0;
  std::size_t event_begin_ = kNone;  // The begin of the event that has not ended.
  bool skipping_ = false;            // The event is too large.
  // RereadFrom was called: a line break ends a text, because a quote is missing somewhere.
  bool careful_ = false;
  bool lost_ = false;  // No event has ended since a line break ended a text.
  std::vector<Extent> events_;
  std::uint64_t too_large_ = 0, broken_ = 0, stray_brackets_ = 0;
  bool cut_ = false;
};

}  // namespace strobe::kineto
