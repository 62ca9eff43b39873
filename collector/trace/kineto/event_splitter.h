// Splits a trace file into the JSON objects of its events, without parsing them. The file comes in
// pieces; the memory does not depend on its size. A file that is damaged is read on behind the
// damage: a quote may be missing, so that everything behind it looks like text, or a bracket.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collector/trace/kineto/bracket_masks.h"
#include "collector/trace/kineto/event_search.h"
#include "collector/trace/kineto/top_level.h"

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
    std::uint64_t stray_brackets = 0;  // Brackets before the event.
  };
  // What could not be read: pieces of the file, each an event or more, and the first one's place.
  struct Damage {
    std::uint64_t pieces = 0, bytes = 0, first_at = 0;
  };

  EventSplitter();

  // The place for the next bytes of the file, never empty. Invalidates events().
  std::span<char> WriteSpace();
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

  // Call it for an event that could not be parsed. True if its end is another one's, so that the
  // events behind it are found anew. False if only this event is damaged.
  bool Reread(const Extent& broken);

  std::uint64_t too_large() const { return too_large_; }
  const Damage& damage() const { return damage_; }
  // Brackets that close nothing.
  std::uint64_t stray_brackets() const { return stray_brackets_; }
  // Did the file end inside of an event, or before the array of events did?
  bool cut() const { return cut_; }
  bool array_open() const { return array_open_; }
  // Could the last bytes of the file not be read, so that it is not known how it ends?
  bool end_damaged() const { return end_damaged_; }
  bool read_events() const { return read_events_; }

 private:
  // How much is read at once. The parser's indexes of it fit into a core's cache.
  static constexpr std::size_t kWindow = 256 << 10;
  static constexpr std::size_t kFirstBurst = 4 << 10;
  static constexpr std::size_t kNone = ~std::size_t{0};

  Found NextEvents();
  std::size_t Scan(std::size_t at);
  void Skip();
  void StartSearch(std::size_t damaged, std::size_t from);
  Found Search();
  Scanned Try(std::size_t at);
  bool IsOpen(const Scanned& tried) const;
  void EndSearch(std::size_t at);
  void AddDamage(std::uint64_t begin, std::uint64_t end);

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
  // The next event is searched for since damage at `damaged_at_`. A candidate is tried again when
  // the file has been read up to `try_again_at_`.
  bool searching_ = false;
  std::uint64_t damaged_at_ = 0, try_again_at_ = 0, tried_bytes_ = 0;
  // How much is scanned at once behind damage; 0: everything. What is found there is scanned again
  // if there is more damage.
  std::size_t burst_ = 0;
  std::vector<Extent> events_;
  std::uint64_t too_large_ = 0, stray_brackets_ = 0;
  Damage damage_;
  bool cut_ = false, array_open_ = false, end_damaged_ = false;
};

}  // namespace strobe::kineto
