// Reads one line of a trace into tracks of the index.
#pragma once
#include <cstdint>
#include <deque>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "collector/trace/index/links.h"
#include "collector/trace/index/track_writer.h"
#include "collector/trace/xplane/lanes.h"
#include "collector/trace/xplane/space.h"

namespace strobe::index {

// Gives each different name a number, so that the index stores it once. Keeps references to the
// texts that it is given; they must outlive it.
class Texts {
 public:
  std::uint32_t Id(std::string_view text) {
    const auto [found, added] = ids_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
    if (added) texts_.push_back(text);
    return found->second;
  }
  const std::vector<std::string_view>& all() const { return texts_; }

 private:
  std::unordered_map<std::string_view, std::uint32_t> ids_;
  std::vector<std::string_view> texts_;
};

// Maps a plane's event metadata ids to ids of texts. Profilers write small and dense ids, which an
// array answers; the others are in a hash map.
class NameIds {
 public:
  NameIds(const xplane::Plane& plane, Texts& texts);
  // Whether events of that kind may have a name of their own, which a stat holds.
  bool MayHaveOwn(std::int64_t id) const { return own_kind_ != 0 && id == own_kind_; }
  // The id of the event's own name; nullopt if the stat does not hold it.
  std::optional<std::uint32_t> OwnOf(const xplane::Stat& stat) const;
  // The id of the text "?" when the plane does not know `id`.
  std::uint32_t Of(std::int64_t id) const {
    if (id >= 0 && static_cast<std::size_t>(id) < dense_.size())
      return dense_[static_cast<std::size_t>(id)];
    const auto found = sparse_.find(id);
    return found == sparse_.end() ? unknown_ : found->second;
  }

 private:
  std::uint32_t unknown_;
  std::vector<std::uint32_t> dense_;
  absl::flat_hash_map<std::int64_t, std::uint32_t> sparse_;
  std::int64_t own_kind_ = 0, own_stat_ = 0;  // See xplane::kOwnName; 0: the plane has none.
  std::unordered_map<std::string_view, std::uint32_t> own_;
};

// The bytes that events lie in: the trace itself, or the lines that were derived from it. Places of
// derived events count on behind the trace's end.
struct EventBytes {
  std::string_view bytes{};
  std::uint64_t first_place = 0;

  std::uint64_t PlaceOf(const xplane::Placed& event) const {
    return first_place + static_cast<std::uint64_t>(event.event.bytes.data() - bytes.data());
  }
};

// One line of the trace on its way into the index. It becomes one row; a line of counters becomes
// one row per counter. The pointers are never null.
struct LineWork {
  const xplane::Plane* plane = nullptr;
  const xplane::Line* line = nullptr;
  const NameIds* names = nullptr;
  const EventBytes* source = nullptr;
  std::uint32_t plane_index = 0;
  std::uint32_t derived = 0;  // See Row::derived.
  Spill* spill = nullptr;     // For what becomes of the line; may be null.

  // What ReadLine fills in.
  std::deque<TrackWriter> tracks{};
  PackedEnds ends{spill};               // Their tracks are counted from the line's first.
  std::vector<std::uint64_t> counts{};  // Events by text.
  std::int64_t begin_ps = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ps = std::numeric_limits<std::int64_t>::min();

  absl::Status status{};
  std::uint32_t first_track = 0;  // The index's number of tracks[0], set when it is laid out.
};

// Reads the line's events into `work`. `events` is only room: it is handed on from line to line, so
// that its memory is used again. DataLoss when the line is damaged, OutOfRange when it has more
// events than an index can number.
absl::Status ReadLine(LineWork& work, std::vector<xplane::Placed>& events);

}  // namespace strobe::index
