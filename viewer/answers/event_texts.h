// What a search can find in the events of a plane besides their names: full names and arguments.
#pragma once
#include <re2/re2.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "collector/trace/xplane/space.h"

namespace strobe::viewer {

// Which text of an event matches.
struct Reason {
  std::string name{};  // "Full name", or the argument's name.
  std::string value{};
};

// Arguments whose names begin with "_" are marks that XLA leaves for itself; they are not searched.
class EventTexts {
 public:
  // Matches all texts that the plane stores once: those that belong to event names, names of
  // arguments, and shared values. The plane and the pattern must outlive this.
  static absl::StatusOr<EventTexts> Read(const xplane::Plane& plane, const re2::RE2& pattern);

  // Ids of the event names of which a full name or an argument matches. It then matches for every
  // event with that id.
  const absl::flat_hash_set<std::int64_t>& kinds() const { return kinds_; }

  // Whether an argument of the event itself matches. `cost` grows by the time that this took, in
  // units of about 30 ns.
  absl::StatusOr<bool> MatchesArguments(std::string_view event, std::uint64_t& cost) const;

  // Which text of the event matches; empty when none does.
  absl::StatusOr<Reason> Explain(std::string_view event) const;

 private:
  EventTexts(const xplane::Plane& plane, const re2::RE2& pattern);

  enum Flag : std::uint8_t { kMatches = 1, kHidden = 2 };
  // What is known of a text that the plane stores once, by the id of its stat name.
  std::uint8_t FlagsOf(std::int64_t id) const {
    if (id >= 0 && static_cast<std::size_t>(id) < dense_.size())
      return dense_[static_cast<std::size_t>(id)];
    const auto found = sparse_.find(id);
    return found == sparse_.end() ? std::uint8_t{0} : found->second;
  }
  bool Matches(std::string_view text) const;
  bool Matches(const xplane::Stat& stat) const;
  absl::StatusOr<bool> MatchesStat(std::string_view stat, std::uint64_t& cost) const;
  // Finds out whether a kind matches; fills in `reason` if it is not null.
  absl::StatusOr<bool> MatchesKind(const xplane::EventName& kind, Reason* reason) const;

  const xplane::Plane* plane_;
  const re2::RE2* pattern_;
  bool numbers_ = true;  // False: the pattern can match no number.
  std::vector<std::uint8_t> dense_;
  absl::flat_hash_map<std::int64_t, std::uint8_t> sparse_;
  absl::flat_hash_set<std::int64_t> kinds_;
};

}  // namespace strobe::viewer
