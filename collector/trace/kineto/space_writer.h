// Writes the planes of a trace file as an XSpace.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/kineto/groups.h"
#include "collector/trace/kineto/metadata.h"
#include "collector/trace/kineto/read_report.h"
#include "collector/trace/kineto/trace_planes.h"

namespace strobe::kineto {

// The file's members beside its events: the key, and the value as it is in the file.
using FileMembers = std::vector<std::pair<std::string, std::string>>;

// When the profiler really recorded, on the wall clock, if its process noted that; 0 = not known.
// PyTorch's file has only a window that includes the time which stopping takes.
struct RecordedWindow {
  std::int64_t began_ns = 0, ended_ns = 0;
};

class SpaceWriter {
 public:
  // The planes must be finished.
  SpaceWriter(TracePlanes& planes, const FileMembers& members, const ReadReport& report,
              const RecordedWindow& known);

  // Call it once. Frees the events as they are written.
  std::string Encode();

 private:
  struct PlacedLine {
    Line* line;
    std::string head;  // The encoded fields before the events.
  };
  struct Plane {
    std::int64_t id = 0;
    std::vector<Line*> lines{};
    std::vector<Group*> groups{};
    PlaneNames* names = nullptr;  // Shared by all groups.
    std::string head{}, stats{};  // Encoded fields.
    std::vector<PlacedLine> placed{};
    std::uint64_t size = 0;  // The size of the encoded plane without its own tag and length.
  };

  std::set<std::string> DeviceNumbers() const;
  Owners FindOwnersOfGroups() const;
  std::string PlaneName(const Group& group) const;
  std::string LineName(const Line& line, bool tell_process) const;
  // Whether a GPU of this number has a stream of this number.
  bool HasStream(std::string_view pid, std::string_view tid) const;
  std::int64_t SortIndex(const Line& line) const;
  void Arrange(std::string_view name, Plane& plane);
  void AddEnvironment(const FileMembers& members, const ReadReport& report,
                      const RecordedWindow& known);

  TracePlanes& source_;
  const Metadata& metadata_;
  std::int64_t zero_ps_ = 0;  // The trace's begin, a whole number of nanoseconds.
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> device_properties_;
  Owners owners_;
  std::map<std::string, Plane> planes_;
  std::map<const Group*, std::string> names_of_groups_;
  std::string environment_;  // Encoded fields of the space.
  std::uint64_t size_ = 0;
};

}  // namespace strobe::kineto
