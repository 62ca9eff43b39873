// Searches the events of one track; a part of find.h.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "viewer/answers/event_source.h"
#include "viewer/answers/event_texts.h"
#include "viewer/answers/find.h"

namespace strobe::viewer {

// Texts of a worker's index as a set, and as a Bloom filter that is comparable with Block::names.
struct TextSet {
  std::vector<bool> has{};  // By the id of the text.
  std::uint64_t mask = 0;

  void Add(std::uint32_t text) {
    has[text] = true;
    mask |= std::uint64_t{1} << text % 64;
  }
  bool Has(std::uint32_t text) const { return text < has.size() && has[text]; }
};

// Why the events of a plane match, besides their names.
struct PlaneMatches {
  EventTexts texts;
  // The names that events of matching kinds have. Several kinds of event may share a name.
  TextSet names{};
};

// Everything that a search knows before it looks at events. It does not change while tracks are
// searched in parallel, except for the atomic members.
struct SearchPlan {
  const LoadedRun& run;
  const FindRequest& request;
  std::vector<TextSet> names{};  // By worker: the names that match.
  std::unordered_map<const xplane::Plane*, std::unique_ptr<PlaneMatches>> planes{};
  std::atomic<std::uint64_t> cost{0};
  // Once one track has found `limit` hits, no other track needs to look beyond the last of them.
  // Times are negated when searching backwards, so that less always means sooner found.
  std::atomic<std::int64_t> bound{std::numeric_limits<std::int64_t>::max()};

  std::int64_t Key(std::int64_t begin_ps) const { return request.backwards ? -begin_ps : begin_ps; }
  // The length of one of the request's slots.
  std::int64_t SlotPs() const {
    return (run.end_ps - run.begin_ps) / std::max<std::int64_t>(1, request.slots) + 1;
  }
};

// Whether a hit comes before another one in the order of the answer.
bool IsBefore(const FindRequest& request, const Hit& a, const Hit& b);

// Sorts the hits, and drops those beyond the limit.
void KeepFirst(const FindRequest& request, std::vector<Hit>& hits);

struct TrackHits {
  std::vector<Hit> hits{};          // At most the request's limit, in its order.
  std::uint64_t other_matches = 0;  // Events that match although their name does not.
  std::uint64_t unread = 0;         // As in Found.
  std::uint64_t before = 0;         // Matches before the begin of the search, if all are looked at.
  std::vector<bool> marks{};        // By slot of the request: whether a match begins in it.
  Lengths lengths{};                // How long matches are, if there are slots.
};

// `track` counts within the row.
absl::StatusOr<TrackHits> SearchTrack(SearchPlan& plan, std::uint32_t row, std::uint32_t track);

}  // namespace strobe::viewer
