// Finds out whether an event, or the end of a file, is where damaged JSON makes one look for it.
#pragma once
#include <cstddef>
#include <string_view>

namespace strobe::kineto {

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

}  // namespace strobe::kineto
