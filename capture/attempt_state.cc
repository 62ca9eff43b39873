#include "capture/attempt_state.h"

#include <algorithm>
#include <utility>

#include "capture/roles.h"
#include "collector/store/logdir.h"
#include "common/base/strings.h"

namespace strobe::capture {

AttemptState::AttemptState(const Clock& clock_, Spec spec_, int attempt,
                           std::vector<Target> targets)
    : clock(clock_), spec(std::move(spec_)), clock_steps(clock) {
  result.attempt = attempt;
  result.capture_id = CaptureId(spec, attempt);
  result.run = storage::RunOfAttempt(spec.run, attempt);
  result.workers_note = spec.workers_note;
  result.expected_workers = spec.expected_workers;
  for (Target& target : targets) members.emplace_back().result.target = std::move(target);
}

WallTime AttemptState::Now() const { return At(clock.WallNow()); }

WallTime AttemptState::At(WallTime present) const { return present - clock_steps.Since(); }

std::optional<WallTime> AttemptState::RequestedStart() const {
  return spec.at ? std::optional(At(*spec.at)) : std::nullopt;
}

Nanos AttemptState::Until(WallTime time) const { return std::max(time - Now(), Nanos{0}); }

WallTime AttemptState::RecordedBy() const {
  if (result.plan->steps) return result.plan->steps->by;
  return result.plan->instant + spec.duration + result.plan->guard;
}

std::string AttemptState::WhyTooFew(const std::function<bool(const Member&)>& can,
                                    std::string_view what) const {
  RoleCounts roles;
  RoleCount all{.there = members.size()};
  for (const Member& member : members) {
    const std::size_t counted = can(member) ? 1 : 0;
    RoleCount& role = roles[member.result.target.role];
    ++role.there;
    role.counted += counted;
    all.counted += counted;
  }
  const auto too_few = [&](const RoleCount& count, std::size_t wanted) {
    return StrCat("only ", count.counted, " of ", count.there, " workers ", what, ", at least ",
                  wanted, " wanted");
  };
  if (const RoleWanted* role = TooFewOf(spec, roles); role != nullptr) {
    const RoleCount& count = roles[role->role];
    return StrCat(role->role, ": ", too_few(count, WantedOf(*role, count.there)));
  }
  const std::size_t wanted = spec.min_workers == 0 ? members.size() : spec.min_workers;
  return all.counted > 0 && all.counted >= wanted ? "" : too_few(all, wanted);
}

std::size_t AttemptState::Count(MemberState wanted) const {
  return static_cast<std::size_t>(
      std::count_if(members.begin(), members.end(),
                    [wanted](const Member& member) { return member.state == wanted; }));
}

std::size_t AttemptState::CountArmed() const {
  return static_cast<std::size_t>(std::count_if(
      members.begin(), members.end(), [](const Member& member) { return member.result.armed; }));
}

bool AttemptState::AllEnded() const { return Count(MemberState::kEnded) == members.size(); }

void AttemptState::End(Member& member, Outcome outcome, std::string message) {
  member.state = MemberState::kEnded;
  member.result.outcome = outcome;
  member.result.message = std::move(message);
  member.watch.reset();
}

}  // namespace strobe::capture
