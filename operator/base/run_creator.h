// What ProfileSchedules and ProfileTriggers have in common: they create ProfileRequests, their
// runs, in the name of whoever created them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "operator/base/admission_seal.h"

namespace strobe::kube {

enum class CreatorKind { kSchedule, kTrigger };
// Human-readable: "schedule" or "trigger".
std::string_view NounOf(CreatorKind kind);

struct RunCreator {
  explicit RunCreator(CreatorKind which) : kind(which) {}

  CreatorKind kind;
  std::string ns{}, name{}, uid{}, resource_version{};
  std::int64_t generation = 0;
  WallTime created{};
  bool deleting = false;
  std::optional<Requester> requester{};  // From the annotation; proved only by a valid seal.
  SealedAdmission admission{};           // What the seal must cover to be valid.
  std::string seal{};                    // From the annotation; empty when there is none.
  // Set if it was sealed again, by a change or by the operator: the UID that the seal covers.
  std::string sealed_uid{};
  bool admitted = false;  // The operator has sealed that it admitted this object.
  // Why it is not known who asked for its runs, which are not started then; empty when it is known.
  std::string not_admitted{};
  bool suspend = false;
  std::size_t keep_succeeded = 0, keep_failed = 0;  // How many finished runs are kept.
  std::optional<Nanos> keep_for{};                  // And how long after their end; none = any.
  std::string run_json{};  // Metadata and spec of its runs, for operator/objects.
  std::string invalid{};   // Why the spec cannot be carried out; empty when it can.
};

// Names of creators are the value of a label.
inline constexpr std::size_t kMaxCreatorName = 63;

// The name of a run whose usual name somebody else has taken. Nobody can guess it without the key,
// which is that of seals, and take it too.
std::string OtherRunName(std::string_view usual, const RunCreator& creator, const std::string& key);
// The usual name of a run that may have another one.
std::string_view UsualRunName(std::string_view run);

// A run as its creator sees the ProfileRequest.
enum class RunState { kUnfinished, kSucceeded, kFailed, kCancelled };
struct CreatedRun {
  std::string name{}, uid{};
  RunState state = RunState::kUnfinished;
  std::optional<WallTime> completion{};
  bool cancelling = false;  // spec.cancel is set.
  bool deleting = false;
  WallTime created{};
  std::string job{};  // What it records, as budgets name it.
  // How long it recorded, and, while it is under way, will record, with what it looks back. Steps
  // that are still to be recorded count as the spec's duration, because nobody knows yet how long
  // they take.
  Nanos recorded{};
  std::uint64_t bytes = 0;
};

// The reason where it is not known who asked for a creator's runs.
inline constexpr char kNotAdmitted[] = "NotAdmitted";

// Why a run is not created.
struct RunRefusal {
  std::string reason{}, message{};

  bool operator==(const RunRefusal&) const = default;
};

}  // namespace strobe::kube
