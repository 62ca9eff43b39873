// Finds events by their names, full names and arguments on all workers.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "viewer/answers/arrows.h"
#include "viewer/answers/event_texts.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// Where a search looks. Each place includes the ones before it.
enum class FindIn {
  kNames,  // Names, as they are shown.
  kTexts,  // Full names, and the arguments that all events of a name share.
  kAll,    // All arguments. Every event has to be read for it.
};

struct FindRequest {
  std::string text{};  // Empty matches every name.
  bool regex = false;  // `text` is in RE2's syntax; else it is a part of the name.
  bool match_case = false;
  FindIn in = FindIn::kNames;
  std::int64_t from_ps = 0;  // On the run's clock.
  // False: events that begin at `from_ps` or later, earliest first. True: events that begin before
  // it, latest first.
  bool backwards = false;
  // The longest first, wherever they begin: `from_ps` and `backwards` are not looked at.
  bool longest = false;
  // Continues a search that ended at this event, which begins at `from_ps`: only events after it in
  // the order of the answer are found, so that of several that begin together none is skipped.
  std::optional<EventRef> after{};
  std::uint32_t limit = 100;
  std::vector<std::uint32_t> rows{};  // Empty: all rows.
  bool count = true;  // False: `total` need not be complete, so that the search may end sooner.
  // More than 0: all matches are looked at. `before` tells how many of them begin before `from_ps`,
  // `marks` which of so many parts of the run have any, and `lengths` how long they are.
  std::uint32_t slots = 0;
  // The most work for reading arguments, in units of about 30 ns; an event takes 3 units or more.
  std::uint64_t max_cost = 60'000'000;
  // Asked now and then, by several threads; once it is true, the search ends with Cancelled. Null:
  // somebody waits to the end.
  std::function<bool()> is_gone{};
};

struct Hit {
  std::uint32_t row = 0, track = 0, ordinal = 0;  // As in EventRef (arrows.h).
  std::int64_t begin_ps = 0, duration_ps = 0;     // On the run's clock.
  std::string_view name{};
  Reason reason{};  // Empty when the name matches.
};

// How long events are.
struct Lengths {
  std::uint64_t count = 0;
  std::int64_t least_ps = 0, most_ps = 0, sum_ps = 0;  // The sum ends at the largest number.

  void Add(const Lengths& other);
};

struct Found {
  std::uint64_t total = 0;                // Events in the whole run that match.
  std::vector<std::string_view> names{};  // The matching names, most events first.
  std::vector<Hit> hits{};                // At most `limit`, in the order of the request.
  std::uint64_t unread = 0;  // Events whose arguments were not searched, because of `max_cost`.
  std::uint64_t before = 0;
  std::int64_t slot_ps = 1;            // The length of a slot; the first begins with the run.
  std::vector<std::uint32_t> marks{};  // The slots in which matches begin, ascending.
  Lengths lengths{};
};

// InvalidArgument when `text` is not a regular expression, DataLoss when the trace is damaged,
// Cancelled when `is_gone`. The names point into the run.
absl::StatusOr<Found> FindEvents(const LoadedRun& run, const FindRequest& request);

}  // namespace strobe::viewer
