// Finds the next event, or the end of the file, behind damaged JSON.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collector/trace/kineto/file_window.h"
#include "collector/trace/kineto/top_level.h"

namespace strobe::kineto {

// Larger events are skipped.
inline constexpr std::size_t kMaxEventBytes = 2 << 20;

struct Scanned {
  enum class Kind {
    kWhole,
    kOpen,    // The bytes end before it does.
    kBroken,  // It is no JSON.
  };
  Kind kind = Kind::kBroken;
  std::size_t size = 0;    // How many bytes were looked at.
  bool has_phase = false;  // The object is an event.

  bool IsEvent() const { return kind == Kind::kWhole && has_phase; }
};

// Scans the object that the bytes begin with. The scan is strict about what a lost quote or bracket
// causes, and lenient about what EventReader can read: any word is a value, and a comma may follow
// the last member. A text has no line break.
Scanned ScanObject(std::string_view bytes);

// Scans what follows the array of events, from its closing bracket on: nothing if the file is
// `bare`, an array without an object around it, else the other members and the end of the object.
// It is open as long as only white space follows.
struct FileEnd {
  bool bare = false;
};
Scanned ScanEnd(std::string_view bytes, const FileEnd& file);

// Searches for where a damaged file can be read on, and counts what cannot be read.
class EventSearch {
 public:
  EventSearch(const FileWindow& window, const TopLevel& top) : window_(window), top_(top) {}

  // The file is damaged from `at` on.
  void Start(std::size_t at);
  bool active() const { return active_; }

  enum class Found { kMoreNeeded, kEvent, kArrayEnd, kFileEnd };
  // Searches from `at` on, which it advances to where the file can be read on. The search is over
  // unless more is needed.
  Found Search(std::size_t& at);
  // Whether an event that could not be parsed hides others, because its end is another one's. If
  // not, it is counted.
  bool HidesEvents(std::size_t begin, std::size_t end);

  // What could not be read: pieces of the file, each an event or more, and the first one's place.
  struct Damage {
    std::uint64_t pieces = 0, bytes = 0, first_at = 0;
    bool at_end = false;  // The last bytes are damaged, so that it is not known how the file ends.
  };
  const Damage& damage() const { return damage_; }

 private:
  Scanned Try(std::size_t at);
  bool IsOpen(const Scanned& tried) const;
  void AddDamage(std::uint64_t begin, std::uint64_t end);

  const FileWindow& window_;
  const TopLevel& top_;
  bool active_ = false;
  // A candidate is tried again when the file has been read up to `try_again_at_`.
  std::uint64_t damaged_at_ = 0, try_again_at_ = 0, tried_bytes_ = 0;
  Damage damage_;
};

}  // namespace strobe::kineto
