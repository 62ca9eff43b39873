#include "capture/workers_in_state.h"

#include <map>
#include <tuple>
#include <utility>

#include "capture/attempt_state.h"
#include "common/protocol/outcome.h"

namespace strobe {
namespace {

constexpr std::size_t kMaxNamesInAll = 64;

// In the order in which they are told: those that failed, those on their way, those that ended Ok.
enum class Place {
  kFailed,
  kWaiting,
  kReady,
  kArming,
  kArmed,
  kRecording,
  kCollecting,
  kUploading,
  kOk
};
// The place, and for ended workers the outcome, worse ones before the others.
using StateKey = std::tuple<Place, int, Outcome>;

Place PlaceOf(v1::CaptureState state) {
  switch (state) {
    case v1::RECORDING:
      return Place::kRecording;
    case v1::COLLECTING:
      return Place::kCollecting;
    case v1::UPLOADING:
    case v1::DONE:
      return Place::kUploading;
    default:
      return Place::kArmed;
  }
}

StateKey KeyOf(const Member& member) {
  switch (member.state) {
    case MemberState::kChecking:
      return {Place::kWaiting, 0, {}};
    case MemberState::kReady:
      return {Place::kReady, 0, {}};
    case MemberState::kArming:
      return {Place::kArming, 0, {}};
    case MemberState::kArmed:
      return {PlaceOf(member.result.report.state()), 0, {}};
    case MemberState::kEnded:
      break;
  }
  const Outcome outcome = member.result.outcome;
  return {outcome == Outcome::kOk ? Place::kOk : Place::kFailed, -Describe(outcome).badness,
          outcome};
}

std::string NameOf(const StateKey& key) {
  switch (std::get<Place>(key)) {
    case Place::kWaiting:
      return "Waiting";
    case Place::kReady:
      return "Ready";
    case Place::kArming:
      return "Arming";
    case Place::kArmed:
      return "Armed";
    case Place::kRecording:
      return "Recording";
    case Place::kCollecting:
      return "Collecting";
    case Place::kUploading:
      return "Uploading";
    case Place::kFailed:
    case Place::kOk:
      break;
  }
  return std::string(Name(std::get<Outcome>(key)));
}

}  // namespace

std::vector<WorkersInState> StatesOf(const std::vector<Member>& members) {
  std::map<StateKey, WorkersInState> found;
  std::size_t names = 0;
  for (const Member& member : members) {
    WorkersInState& in = found[KeyOf(member)];
    ++in.workers;
    // The first name of each state is always told.
    if (in.names.size() == kMaxNamesInState || (names >= kMaxNamesInAll && !in.names.empty()))
      continue;
    in.names.push_back(member.result.target.name);
    ++names;
  }
  std::vector<WorkersInState> states;
  for (auto& [key, in] : found) {
    in.state = NameOf(key);
    states.push_back(std::move(in));
  }
  return states;
}

}  // namespace strobe
