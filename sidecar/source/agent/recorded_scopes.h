// The annotations of one program, as they are read from the rings of its threads.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/wire/ring_file.h"
#include "agent/wire/ring_reader.h"
#include "collector/trace/xplane/builder.h"
#include "sidecar/source/base/tick_timeline.h"
#include "sidecar/source/device/device_planes.h"

namespace strobe::source {

// Events are sorted by begin; of events with the same begin, the outer one comes first.
struct LineEvent {
  std::int64_t begin_ps = 0, end_ps = 0;
  const HostCall* call = nullptr;  // Null for an annotation.
  std::string_view text{};
};

void SortEvents(std::vector<LineEvent>& events);

// Inserts calls into the sorted annotations `events`. Events of a line must nest, so small
// differences of the clocks are corrected.
void AddCalls(const std::vector<HostCall>& calls, std::vector<LineEvent>& events);

// The part of the rings that belongs to the capture.
enum class RecordsFrom {
  kNow,     // Records from now on.
  kStart,   // All records, because the program is younger than the capture.
  kOldest,  // All records that the rings still hold, including earlier ones.
  kEnded,   // Like kOldest, of a program that ended before the capture.
};

class RecordedScopes {
 public:
  // Keeps annotations up to `level`; 0 keeps none. The caller keeps the file open until Close.
  RecordedScopes(const wire::RingFile& file, RecordsFrom from, std::uint32_t level);
  RecordedScopes(const RecordedScopes&) = delete;
  RecordedScopes& operator=(const RecordedScopes&) = delete;

  // Reads new records. `budget` is the number of bytes that may still be kept; records beyond it
  // are counted. Returns how full the fullest ring was, from 0 to 1.
  double Drain(wire::RecordBuffer& buffer, std::uint64_t& budget);
  // Notes how many records there are now, just before recording is switched off.
  void NoteEnd();
  // Call it after the last Drain: counts records that were written but never arrived as lost.
  // `lives` tells that the program runs.
  void CountUnseen(bool lives);
  // Closes the rings; what was read stays.
  void Close() { readers_.clear(); }

  // For the following three, the file must be open.
  std::uint64_t lost() const;
  std::uint64_t cut() const;  // Scopes of which the program cut a part of the text.
  bool damaged() const;

  std::uint64_t kept() const { return kept_; }
  // A ring had overwritten records from before the recording.
  bool wrapped() const { return wrapped_; }
  // The end of the last event; none if there is no event.
  std::optional<std::uint64_t> last_ticks() const;
  // The latest of the threads' first events, in ns of the scale; 0 if none is later.
  std::int64_t LatestFirstNs(const TickScale& scale) const;

  // The begin of the first and the end of the last recorded step of a loop, in ns.
  struct StepTimes {
    std::int64_t begin_ns = 0, end_ns = 0;
  };
  // For steps of the loop with a number from `first` to `last`, in ns of the scale. None if there
  // is no such step.
  std::optional<StepTimes> TimesOfSteps(std::string_view loop, std::int64_t first,
                                        std::int64_t last, const TickScale& scale) const;

  // Adds a line per thread to the host plane, with the calls of the threads, by their ids. Events
  // that do not lie between 0 and `window_ps` are left out. `label` comes before the threads'
  // names, if it is not empty.
  void Build(const TickScale& scale, std::int64_t window_ps, const std::string& label,
             const std::map<std::uint32_t, std::vector<HostCall>>& calls,
             xplane::PlaneBuilder& host) const;

 private:
  struct Event {
    std::uint64_t begin = 0, end = 0;  // Ticks.
    std::size_t text = 0;              // Offset in the thread's text.
    std::size_t size = 0;              // Size of the text in bytes.
  };
  struct Thread {
    std::string name;
    std::vector<Event> events;
    std::string text;
  };

  void OpenReaders(RecordsFrom from);
  std::uint64_t WithoutRing() const;

  const wire::RingFile& file_;
  const std::uint32_t level_;
  std::vector<wire::RingReader> readers_;
  // Records that each reader's ring had when recording was switched off.
  std::vector<std::uint64_t> made_at_end_;
  std::map<std::uint32_t, Thread> threads_;
  bool wrapped_ = false;
  std::uint64_t kept_ = 0, over_budget_ = 0, unseen_ = 0;
  const std::uint64_t without_ring_before_;
  std::uint64_t dropped_before_ = 0, cut_before_ = 0;
};

}  // namespace strobe::source
