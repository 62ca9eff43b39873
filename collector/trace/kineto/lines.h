// The lines of the planes that a trace file becomes: a thread, a stream, a process's counters, ...
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/kineto/byte_chunks.h"
#include "collector/trace/kineto/event_bytes.h"
#include "collector/trace/kineto/id_sample.h"
#include "collector/trace/kineto/names.h"
#include "collector/trace/kineto/usual_times.h"

namespace strobe::kineto {

enum class LineKind : std::uint8_t {
  kThread,
  kStream,
  kStreamNotes,  // Annotations and waits of one category on a stream, which are no work.
  kAsync,        // Events of one category of a process, which belong to no thread.
  kCounters,     // All counters of a process or of a device.
};

// All lines of one process or device. Several may become one plane.
struct Group {
  explicit Group(NameTable& table) : names(table) {}

  bool device = false;
  std::string kind = "GPU";  // What XLA would call such a device.
  std::string pid{};
  std::string plane_of{};  // The process whose plane takes these lines; empty = it has its own.
  IdSample launches{};     // The correlation ids of its events.
  PlaneNames names;
};

struct Line;

// An event that has begun and not ended: its stats, and what its end may name.
struct OpenSpan {
  std::string stats{};
  std::int64_t begin_ps = 0, name_id = 0;
  std::uint64_t name_hash = 0;
  Line* line = nullptr;
  std::size_t cost = 0;     // The memory that it takes.
  bool unfinished = false;  // Its end is not in the file.
};

struct Line {
  LineKind kind = LineKind::kThread;
  Group* group = nullptr;
  std::string tid{};       // The thread or stream; empty for kAsync and kCounters.
  std::string category{};  // Set for kStreamNotes and kAsync only.
  // The line takes the events of all threads of its group that came when there was no room for
  // lines of their own. Each of its events then says which thread it belongs to.
  bool shared = false;

  // All times are in picoseconds since TracePlanes' origin. The line's events count from
  // `origin_ps`, a whole number of nanoseconds.
  std::int64_t origin_ps = 0;
  bool begun = false;            // The origin is known.
  std::uint32_t work_types = 0;  // Which kinds of work a stream's events were; see WorkType.
  // Which signs a thread's events gave that it is a stream of a device: 1 << DeviceSign.
  std::uint32_t signs = 0;
  std::uint64_t count = 0;
  ByteChunks events{};
  std::vector<OpenSpan> open{};

  // When the first and the last event begin, and when the last one ends.
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
  std::int64_t first_ps = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ps = kNever, end_ps = kNever;
  // The time of the newest of the marks of beginnings and ends; see OpenSpans.
  std::int64_t mark_ps = kNever;

  // Begins an event in `event`. The name is one of the group's.
  void Begin(std::int64_t name_id, std::int64_t begin_ps, EventBytes& event) {
    if (!std::exchange(begun, true)) origin_ps = begin_ps - (begin_ps % 1000 + 1000) % 1000;
    event.Begin(name_id, begin_ps - origin_ps);
    first_ps = std::min(first_ps, begin_ps);
    last_ps = std::max(last_ps, begin_ps);
    end_ps = std::max(end_ps, begin_ps);
  }
  void Append(std::string_view event);

  // Whether all events have usual times.
  bool IsUsual(const UsualTimes::Usual& usual) const {
    return usual.Has(first_ps) && usual.Has(last_ps) && end_ps <= usual.latest_end_ps;
  }
  void LeaveOutAll();
  // Leaves out the events that begin at other times. Those that end too late get no length. Returns
  // how many these are.
  std::uint64_t KeepUsual(const UsualTimes::Usual& usual, EventBytes& bytes);
};

// Which line an event belongs to. Texts are those of the event.
struct LineKey {
  LineKind kind = LineKind::kThread;
  bool device = false;
  std::string_view pid{}, tid{}, category{};
};

class Lines {
 public:
  // When there are this many, further threads share one line per process, and further processes
  // share one group; their events then tell which thread or process they belong to.
  static constexpr std::size_t kMaxLines = 8192, kMaxGroups = 256;
  // Threads and processes with longer names are among the further ones.
  static constexpr std::size_t kMaxText = 256;

  explicit Lines(NameTable& table) : table_(table) {}

  Line& Find(const LineKey& key);
  // nullptr if there is no such line.
  Line* Existing(const LineKey& key) const;
  // The lines are in the order in which they were first found.
  const std::vector<std::unique_ptr<Line>>& all() const { return lines_; }
  Group* GroupOf(bool device, std::string_view pid);

 private:
  struct Recent {
    std::string pid{}, tid{}, category{};
    bool device = false;
    Line* line = nullptr;
  };
  Line& FindAny(const LineKey& key);

  NameTable& table_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::map<std::string, Line*, std::less<>> by_key_;
  std::map<std::string, std::unique_ptr<Group>, std::less<>> groups_;
  std::array<Recent, 256> recent_{};
};

}  // namespace strobe::kineto
