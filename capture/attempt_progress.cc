#include "capture/attempt_progress.h"

#include <map>
#include <tuple>
#include <utility>

#include "capture/attempt_state.h"
#include "common/base/enum_names.h"
#include "common/protocol/outcome.h"

namespace strobe::capture {
namespace {

constexpr std::size_t kMaxNamesInAll = 64;

// In the order in which they are told: those that failed, those on their way, those that ended Ok.
enum class StateGroup {
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
using StateKey = std::tuple<StateGroup, int, Outcome>;

StateGroup StateGroupOf(v1::CaptureState state) {
  switch (state) {
    case v1::RECORDING:
      return StateGroup::kRecording;
    case v1::COLLECTING:
      return StateGroup::kCollecting;
    case v1::UPLOADING:
    case v1::DONE:
      return StateGroup::kUploading;
    default:
      return StateGroup::kArmed;
  }
}

StateKey KeyOf(const Member& member) {
  switch (member.state) {
    case MemberState::kChecking:
      return {StateGroup::kWaiting, 0, {}};
    case MemberState::kReady:
      return {StateGroup::kReady, 0, {}};
    case MemberState::kArming:
      return {StateGroup::kArming, 0, {}};
    case MemberState::kArmed:
      return {StateGroupOf(member.result.report.state()), 0, {}};
    case MemberState::kEnded:
      break;
  }
  const Outcome outcome = member.result.outcome;
  return {outcome == Outcome::kOk ? StateGroup::kOk : StateGroup::kFailed,
          -Describe(outcome).badness, outcome};
}

std::string NameOf(const StateKey& key) {
  switch (std::get<StateGroup>(key)) {
    case StateGroup::kWaiting:
      return "Waiting";
    case StateGroup::kReady:
      return "Ready";
    case StateGroup::kArming:
      return "Arming";
    case StateGroup::kArmed:
      return "Armed";
    case StateGroup::kRecording:
      return "Recording";
    case StateGroup::kCollecting:
      return "Collecting";
    case StateGroup::kUploading:
      return "Uploading";
    case StateGroup::kFailed:
    case StateGroup::kOk:
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

std::string_view Name(Phase phase) {
  static constexpr EnumNames<Phase, 7> kNames({{Phase::kPreflight, "preflight"},
                                               {Phase::kArming, "arm"},
                                               {Phase::kDelay, "delay"},
                                               {Phase::kRecording, "record"},
                                               {Phase::kCollecting, "collect"},
                                               {Phase::kPublishing, "publish"},
                                               {Phase::kDone, "done"}});
  return kNames.Of(phase);
}

}  // namespace strobe::capture
