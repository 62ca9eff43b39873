#include "viewer/answers/find.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "common/base/mutex.h"
#include "common/base/parallel.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "viewer/answers/track_search.h"

namespace strobe::viewer {
namespace {

using index::Index;

// Finds the names that match, with the number of their events.
void MatchNames(const re2::RE2& pattern, SearchPlan& plan, Found& found) {
  std::unordered_map<std::string_view, std::uint64_t> counts;
  for (const Worker& worker : plan.run.workers) {
    const Index& index = worker.index();
    TextSet& names = plan.names.emplace_back();
    names.has.resize(index.texts());
    for (std::uint32_t id = 0; id < index.texts(); ++id) {
      const std::uint64_t count = index.TextCount(id);
      const std::string_view text = index.Text(id);
      if (count == 0 || !re2::RE2::PartialMatch({text.data(), text.size()}, pattern)) continue;
      names.Add(id);
      counts[text] += count;
      found.total += count;
    }
  }
  for (const auto& [text, count] : counts) found.names.push_back(text);
  std::sort(found.names.begin(), found.names.end(), [&](auto& a, auto& b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
  });
}

// Finds what else matches in the planes of a worker.
absl::Status MatchPlanes(const re2::RE2& pattern, std::uint32_t worker, SearchPlan& plan) {
  const Index& index = plan.run.workers[worker].index();
  // The names of matching kinds, and whose they are.
  std::unordered_map<std::string_view, std::vector<PlaneMatches*>> kinds;
  for (const RowRef& ref : plan.run.rows) {
    if (ref.worker != worker) continue;
    ASSIGN_OR_RETURN(const EventSource source, SourceOf(plan.run, ref));
    std::unique_ptr<PlaneMatches>& matches = plan.planes[source.plane];
    if (matches != nullptr) continue;
    ASSIGN_OR_RETURN(EventTexts texts, EventTexts::Read(*source.plane, pattern));
    matches = std::make_unique<PlaneMatches>(PlaneMatches{.texts = std::move(texts)});
    if (matches->texts.kinds().empty()) continue;
    matches->names.has.resize(index.texts());
    for (const std::int64_t id : matches->texts.kinds())
      kinds[source.plane->event_names.at(id).shown()].push_back(matches.get());
  }
  for (std::uint32_t id = 0; !kinds.empty() && id < index.texts(); ++id) {
    if (index.TextCount(id) == 0) continue;
    if (const auto known = kinds.find(index.Text(id)); known != kinds.end()) {
      for (PlaneMatches* matches : known->second) matches->names.Add(id);
    }
  }
  return absl::OkStatus();
}

struct TrackRef {
  std::uint32_t row, track;
};

// The tracks that the request asks for.
std::vector<TrackRef> PlacesOf(const LoadedRun& run, const FindRequest& request) {
  std::vector<bool> wanted(run.rows.size(), request.rows.empty());
  for (const std::uint32_t row : request.rows) {
    if (row < wanted.size()) wanted[row] = true;
  }
  std::vector<TrackRef> places;
  for (std::uint32_t row = 0; row < run.rows.size(); ++row) {
    if (!wanted[row]) continue;
    for (std::uint32_t t = 0; t < run.RowOf(run.rows[row]).tracks; ++t) places.push_back({row, t});
  }
  return places;
}

// Lowers the bound to the last of these hits, which are sorted by time, if they are enough.
void LowerBound(SearchPlan& plan, const std::vector<Hit>& hits) {
  if (plan.request.longest || hits.empty() || hits.size() < plan.request.limit) return;
  std::int64_t known = plan.bound;
  const std::int64_t last = plan.Key(hits.back().begin_ps);
  while (last < known && !plan.bound.compare_exchange_weak(known, last)) {
  }
}

absl::Status Explain(const SearchPlan& plan, Hit& hit) {
  const RowRef& ref = plan.run.rows[hit.row];
  const Index& index = plan.run.WorkerOf(ref).index();
  const index::Track& track = index.tracks()[plan.run.RowOf(ref).first_track + hit.track];
  const std::optional<index::Entry> entry = index.EntryAt(track, hit.ordinal);
  if (!entry || plan.names[ref.worker].Has(entry->name)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const EventSource source, SourceOf(plan.run, ref));
  ASSIGN_OR_RETURN(const std::string_view bytes, source.At(entry->offset));
  ASSIGN_OR_RETURN(hit.reason, plan.planes.at(source.plane)->texts.Explain(bytes));
  return absl::OkStatus();
}

}  // namespace

void Lengths::Add(const Lengths& other) {
  if (other.count == 0) return;
  least_ps = count == 0 ? other.least_ps : std::min(least_ps, other.least_ps);
  most_ps = std::max(most_ps, other.most_ps);
  sum_ps = AddSaturated(sum_ps, other.sum_ps);
  count += other.count;
}

absl::StatusOr<Found> FindEvents(const LoadedRun& run, const FindRequest& request) {
  constexpr int kMaxPatternBytes = 8 << 20;
  constexpr std::size_t kThreads = 2;
  re2::RE2::Options options;
  options.set_literal(!request.regex);
  options.set_case_sensitive(request.match_case);
  options.set_log_errors(false);
  options.set_max_mem(kMaxPatternBytes);
  const re2::RE2 pattern(request.text, options);
  if (!pattern.ok())
    return absl::InvalidArgumentError(StrCat("Invalid regular expression: ", pattern.error()));
  Found found;
  SearchPlan plan{.run = run, .request = request};
  MatchNames(pattern, plan, found);
  for (std::uint32_t w = 0; w < run.workers.size() && request.in != FindIn::kNames; ++w)
    RETURN_IF_ERROR(MatchPlanes(pattern, w, plan));

  const std::vector<TrackRef> places = PlacesOf(run, request);
  std::vector<bool> marks(request.slots);
  Mutex mutex;
  absl::Status status;
  ParallelFor(places.size(), kThreads, [&](std::size_t i) {
    absl::StatusOr<TrackHits> here = SearchTrack(plan, places[i].row, places[i].track);
    if (here.ok()) LowerBound(plan, here->hits);
    MutexLock lock(&mutex);
    status.Update(here.status());
    if (!here.ok()) return;
    found.total += here->other_matches;
    found.unread += here->unread;
    found.before += here->before;
    found.lengths.Add(here->lengths);
    for (std::size_t slot = 0; slot < marks.size(); ++slot)
      if (here->marks[slot]) marks[slot] = true;
    std::move(here->hits.begin(), here->hits.end(), std::back_inserter(found.hits));
    if (found.hits.size() <= 2 * std::size_t{request.limit}) return;
    KeepFirst(request, found.hits);
    LowerBound(plan, found.hits);
  });
  RETURN_IF_ERROR(status);
  KeepFirst(request, found.hits);
  for (Hit& hit : found.hits) RETURN_IF_ERROR(Explain(plan, hit));
  found.slot_ps = plan.SlotPs();
  for (std::uint32_t slot = 0; slot < marks.size(); ++slot)
    if (marks[slot]) found.marks.push_back(slot);
  return found;
}

}  // namespace strobe::viewer
