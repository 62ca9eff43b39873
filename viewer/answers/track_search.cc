#include "viewer/answers/track_search.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>

#include "common/base/status_macros.h"

namespace strobe::viewer {
namespace {

using index::Block;
using index::Entry;
using index::Index;
using index::kBlockEvents;
using index::Track;

// How many blocks are read before it is asked again whether the search is still wanted. The
// question is a system call, and so many blocks take some hundred microseconds.
constexpr std::uint32_t kBlocksPerQuestion = 64;

enum class Match { kNone, kName, kOther };

class TrackSearcher {
 public:
  TrackSearcher(SearchPlan& plan, std::uint32_t row, std::uint32_t track)
      : plan_(plan),
        row_(row),
        track_number_(track),
        worker_(plan.run.WorkerOf(plan.run.rows[row])),
        index_(worker_.index()),
        track_(index_.tracks()[plan.run.RowOf(plan.run.rows[row]).first_track + track]),
        names_(plan.names[plan.run.rows[row].worker]),
        first_(First()) {
    found_.marks.resize(plan.request.slots);
  }

  absl::StatusOr<TrackHits> Search() {
    ASSIGN_OR_RETURN(source_, SourceOf(plan_.run, plan_.run.rows[row_]));
    if (const auto known = plan_.planes.find(source_.plane); known != plan_.planes.end())
      plane_ = known->second.get();
    const FindRequest& request = plan_.request;
    reads_all_ = request.in == FindIn::kAll && plane_ != nullptr;
    mask_ = reads_all_ ? ~std::uint64_t{0} : names_.mask | (plane_ ? plane_->names.mask : 0);
    const bool others = reads_all_ || (plane_ != nullptr && plane_->names.mask != 0);
    if (request.longest)
      RETURN_IF_ERROR(SearchLongest());
    else if (request.slots > 0 || (request.count && others))
      RETURN_IF_ERROR(SearchAll());
    else
      RETURN_IF_ERROR(request.backwards ? SearchBackwards() : SearchForwards());
    return std::move(found_);
  }

 private:
  // The ordinal at which the search begins or, if it goes backwards, before which it does. Events
  // that begin together are in the order of rows, tracks and ordinals.
  std::uint64_t First() const {
    const std::optional<EventRef>& after = plan_.request.after;
    const std::int64_t from_ps = plan_.request.from_ps - worker_.shift_ps;
    if (!after) return index_.FirstFrom(track_, from_ps);
    const std::pair here(row_, track_number_), last(after->row, after->track);
    if (here == last) return std::uint64_t{after->ordinal} + (plan_.request.backwards ? 0u : 1u);
    return index_.FirstFrom(track_, here < last ? from_ps + 1 : from_ps);
  }

  // Looks at all events, in order to count them.
  absl::Status SearchAll() {
    std::deque<Hit> last;  // The latest hits before the begin of a search that goes backwards.
    const bool backwards = plan_.request.backwards;
    const std::span<const Block> blocks = index_.blocks(track_);
    for (std::uint64_t n = 0; n < blocks.size(); ++n) {
      RETURN_IF_ERROR(ReadBlock(blocks, n));
      for (const auto& [entry, ordinal] : here_) {
        found_.before += ordinal < first_;
        if (backwards && ordinal < first_) {
          last.push_front(HitOf(entry, ordinal));
          if (last.size() > plan_.request.limit) last.pop_back();
        } else if (!backwards && ordinal >= first_ && found_.hits.size() < plan_.request.limit) {
          found_.hits.push_back(HitOf(entry, ordinal));
        }
      }
    }
    if (backwards) found_.hits.assign(last.begin(), last.end());
    return absl::OkStatus();
  }

  // Looks at all events and keeps the longest.
  absl::Status SearchLongest() {
    const FindRequest& request = plan_.request;
    std::optional<Hit> last;
    if (const auto& after = request.after)
      last = Hit{.row = after->row,
                 .track = after->track,
                 .ordinal = after->ordinal,
                 .begin_ps = after->begin_ps,
                 .duration_ps = after->duration_ps};
    const std::span<const Block> blocks = index_.blocks(track_);
    for (std::uint64_t n = 0; n < blocks.size(); ++n) {
      RETURN_IF_ERROR(ReadBlock(blocks, n));
      for (const auto& [entry, ordinal] : here_) {
        const Hit hit = HitOf(entry, ordinal);
        if (!last || IsBefore(request, *last, hit)) found_.hits.push_back(hit);
      }
      if (found_.hits.size() > 2 * std::size_t{request.limit}) KeepFirst(request, found_.hits);
    }
    KeepFirst(request, found_.hits);
    return absl::OkStatus();
  }

  absl::Status SearchForwards() {
    const std::span<const Block> blocks = index_.blocks(track_);
    for (std::uint64_t n = first_ / index::kBlockEvents; n < blocks.size(); ++n) {
      RETURN_IF_ERROR(ReadBlock(blocks, n));
      for (const auto& [entry, ordinal] : here_) {
        if (ordinal >= first_ && !Take(entry, ordinal)) return absl::OkStatus();
      }
      if (IsBeyondBound(blocks[n].begin_ps)) break;
    }
    return absl::OkStatus();
  }

  absl::Status SearchBackwards() {
    const std::span<const Block> blocks = index_.blocks(track_);
    for (std::uint64_t n = std::min<std::uint64_t>(first_ / index::kBlockEvents + 1, blocks.size());
         n-- > 0;) {
      RETURN_IF_ERROR(ReadBlock(blocks, n));
      std::reverse(here_.begin(), here_.end());
      for (const auto& [entry, ordinal] : here_) {
        if (ordinal < first_ && !Take(entry, ordinal)) return absl::OkStatus();
      }
      if (IsBeyondBound(blocks[n].begin_ps)) break;
    }
    return absl::OkStatus();
  }

  // Fills `here_` with the block's matching events. A block whose filter says that it holds none
  // is not decoded.
  absl::Status ReadBlock(std::span<const Block> blocks, std::uint64_t number) {
    here_.clear();
    if (blocks_++ % kBlocksPerQuestion == 0 && plan_.request.is_gone && plan_.request.is_gone())
      return absl::CancelledError("nobody waits for the search any more");
    if ((blocks[number].names & mask_) == 0) return absl::OkStatus();
    absl::Status status;
    cost_ = 0;
    may_read_ = reads_all_ && plan_.cost < plan_.request.max_cost;
    auto ordinal = static_cast<std::uint32_t>(number * index::kBlockEvents);
    index_.ForEachEntry(blocks[number], [&](const Entry& entry) {
      const absl::StatusOr<Match> match = MatchOf(entry);
      if (!match.ok())
        status = match.status();
      else if (*match != Match::kNone)
        Keep(entry, ordinal);
      found_.other_matches += match.ok() && *match == Match::kOther;
      ++ordinal;
    });
    if (cost_ != 0) plan_.cost += cost_;
    return status;
  }

  // One of the block's hits.
  void Keep(const Entry& entry, std::uint32_t ordinal) {
    here_.emplace_back(entry, ordinal);
    if (found_.marks.empty()) return;
    const std::int64_t length = entry.duration_ps;
    found_.lengths.Add({.count = 1, .least_ps = length, .most_ps = length, .sum_ps = length});
    const std::int64_t from_begin = entry.begin_ps + worker_.shift_ps - plan_.run.begin_ps;
    const auto slot = static_cast<std::uint64_t>(from_begin / plan_.SlotPs());
    if (slot < found_.marks.size()) found_.marks[slot] = true;
  }

  absl::StatusOr<Match> MatchOf(const Entry& entry) {
    if (names_.Has(entry.name)) return Match::kName;
    if (plane_ == nullptr) return Match::kNone;
    const bool kind_may_match = plane_->names.Has(entry.name);
    if (!kind_may_match && !may_read_) {
      found_.unread += reads_all_;
      return Match::kNone;
    }
    ASSIGN_OR_RETURN(const std::string_view bytes, source_.At(entry.offset));
    if (kind_may_match) {
      xplane::Event event;
      RETURN_IF_ERROR(xplane::ParseEvent(bytes, event));
      if (plane_->texts.kinds().contains(event.name_id)) return Match::kOther;
    }
    if (!may_read_) return Match::kNone;
    ASSIGN_OR_RETURN(const bool matches, plane_->texts.MatchesArguments(bytes, cost_));
    return matches ? Match::kOther : Match::kNone;
  }

  // False when no further hit is wanted.
  bool Take(const Entry& entry, std::uint32_t ordinal) {
    if (found_.hits.size() >= plan_.request.limit || IsBeyondBound(entry.begin_ps)) return false;
    found_.hits.push_back(HitOf(entry, ordinal));
    return true;
  }

  bool IsBeyondBound(std::int64_t begin_ps) const {
    return plan_.Key(begin_ps + worker_.shift_ps) > plan_.bound;
  }

  Hit HitOf(const Entry& entry, std::uint32_t ordinal) const {
    return {.row = row_,
            .track = track_number_,
            .ordinal = ordinal,
            .begin_ps = entry.begin_ps + worker_.shift_ps,
            .duration_ps = entry.duration_ps,
            .name = index_.Text(entry.name)};
  }

  SearchPlan& plan_;
  const std::uint32_t row_, track_number_;
  const Worker& worker_;
  const Index& index_;
  const Track& track_;
  const TextSet& names_;
  const std::uint64_t first_;  // See First.
  EventSource source_;
  const PlaneMatches* plane_ = nullptr;  // Null when only names are searched.
  bool reads_all_ = false;               // Every event's arguments are searched.
  bool may_read_ = false;                // The present block's arguments are searched.
  std::uint64_t mask_ = 0;               // Which blocks may hold hits.
  std::uint32_t blocks_ = 0;             // How many were looked at.
  std::uint64_t cost_ = 0;               // What the block at hand costs.
  std::vector<std::pair<Entry, std::uint32_t>> here_;  // The block's hits, with their ordinals.
  TrackHits found_;
};

}  // namespace

bool IsBefore(const FindRequest& request, const Hit& a, const Hit& b) {
  const auto place = [](const Hit& hit) {
    return std::tuple(hit.begin_ps, hit.row, hit.track, hit.ordinal);
  };
  if (request.longest && a.duration_ps != b.duration_ps) return a.duration_ps > b.duration_ps;
  return request.backwards && !request.longest ? place(b) < place(a) : place(a) < place(b);
}

void KeepFirst(const FindRequest& request, std::vector<Hit>& hits) {
  std::sort(hits.begin(), hits.end(),
            [&](const Hit& a, const Hit& b) { return IsBefore(request, a, b); });
  if (hits.size() > request.limit) hits.resize(request.limit);
}

absl::StatusOr<TrackHits> SearchTrack(SearchPlan& plan, std::uint32_t row, std::uint32_t track) {
  return TrackSearcher(plan, row, track).Search();
}

}  // namespace strobe::viewer
