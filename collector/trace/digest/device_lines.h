// What the lines of a device's plane hold.
#pragma once
#include <cstdint>
#include <string_view>

#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/space.h"

namespace strobe::digest {

enum class LineRole : std::uint8_t {
  kNone,        // Says the same as other lines in other words, or nothing about work.
  kWork,        // Each event is work; events that overlap run at the same time.
  kNestedWork,  // Each event is work; what runs inside another event takes its time.
  kScopes,      // Names that the program gives to its parts.
};

using xplane::IsDevicePlane;
using xplane::PlaneKind;
using xplane::PlaneKindOf;

// Is the device of this name a SparseCore, such as "/device:TPU:0 SparseCore 1"? It is a part of a
// TPU that has a plane of its own and, in most programs, little to do.
bool IsSparseCore(std::string_view device);

// The roles of a plane's lines; README.md explains them.
class DeviceLines {
 public:
  explicit DeviceLines(const xplane::Plane& plane);

  // `line`: its name.
  LineRole RoleOf(std::string_view line) const;
  // Is each event work?
  bool IsWork(std::string_view line) const;
  static bool IsAsync(std::string_view line);
  // There are only lines of whole programs.
  bool coarse() const { return !streams_ && !ops_ && modules_; }
  // Events of work are named after HLO instructions.
  bool is_hlo() const { return !streams_ && ops_; }
  // A line shows asynchronous operations from begin to end.
  bool has_async() const { return async_; }

 private:
  const std::string_view ops_line_, modules_line_;  // Their names.
  bool streams_ = false, ops_ = false, modules_ = false, async_ = false;
};

// Does the trace tell that the program uses a device, although no plane may tell what ran there?
// What ran on the host is then only a part of the program's work.
bool TellsOfDevice(const xplane::Space& space);

// Does the plane tell of work that ran on its device? One that holds nothing, or only how much
// memory is allocated there, may be of a device that the program does not use.
bool HasWork(const xplane::Plane& plane);

}  // namespace strobe::digest
