#include "collector/store/run_claim.h"

#include <array>

#include "absl/strings/str_format.h"
#include "collector/store/byte_source.h"
#include "collector/store/logdir.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

constexpr std::uint64_t kMaxClaimBytes = 1024;
// How often a claim is tried again because another one was faster.
constexpr int kMaxRaces = 20;

std::string NumberedRun(std::string_view run, int number) {
  return number == 1 ? std::string(run) : StrCat(run, "_", number);
}

enum class Owner { kNobody, kUs, kOther };

// Whose claim a run has. kNobody means only that there is no claim.
absl::StatusOr<Owner> ClaimOf(ObjectStore& store, std::string_view run,
                              std::string_view capture_id) {
  const absl::StatusOr<std::string> claim = GetText(store, ClaimKey(run), kMaxClaimBytes);
  if (absl::IsNotFound(claim.status())) return Owner::kNobody;
  if (absl::IsOutOfRange(claim.status())) return Owner::kOther;
  RETURN_IF_ERROR(claim.status());
  return *claim == capture_id ? Owner::kUs : Owner::kOther;
}

// Whose the run is, whether it is claimed or not.
absl::StatusOr<Owner> OwnerOf(ObjectStore& store, std::string_view run,
                              std::string_view capture_id) {
  ASSIGN_OR_RETURN(Owner owner, ClaimOf(store, run, capture_id));
  if (owner != Owner::kNobody) return owner;
  ASSIGN_OR_RETURN(const bool used, HasFiles(store, RunPrefix(run)));
  if (!used) return Owner::kNobody;
  // Another worker of the capture may have claimed the run and written to it in between.
  ASSIGN_OR_RETURN(owner, ClaimOf(store, run, capture_id));
  return owner == Owner::kNobody ? Owner::kOther : owner;
}

}  // namespace

std::string ClaimKey(std::string_view run) { return RunPrefix(run) + "strobe.capture"; }

// FNV-1a, because all versions of Strobe must compute the same name.
std::string UnclaimedRun(std::string_view run, std::string_view capture_id) {
  std::uint32_t hash = 2166136261u;
  for (const char c : capture_id) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return StrCat(run, "_", absl::StrFormat("%08x", hash));
}

absl::StatusOr<std::string> ClaimRun(ObjectStore& store, std::string_view run,
                                     std::string_view capture_id) {
  const std::array<std::string_view, 1> pieces = {capture_id};
  for (int number = 1, races = 0; number <= kMaxRunNumber && races < kMaxRaces;) {
    const std::string name = NumberedRun(run, number);
    const absl::StatusOr<Owner> owner = OwnerOf(store, name, capture_id);
    if (absl::IsPermissionDenied(owner.status())) return UnclaimedRun(run, capture_id);
    RETURN_IF_ERROR(owner.status());
    if (*owner == Owner::kUs) return name;
    if (*owner == Owner::kOther) {
      ++number;
      continue;
    }
    // The name may be free because its capture was deleted after this one had to take the next.
    const std::string next = NumberedRun(run, number + 1);
    ASSIGN_OR_RETURN(const Owner beyond, ClaimOf(store, next, capture_id));
    if (beyond == Owner::kUs) return next;
    const absl::Status put = store.Put(ClaimKey(name), MemoryBytes(pieces), {.create_only = true});
    if (put.ok()) return name;
    if (!absl::IsAlreadyExists(put)) return put;
    ++races;  // Perhaps by another worker of this capture: looks at the same name again.
  }
  return absl::AlreadyExistsError(
      StrCat("run ", run, " and ", kMaxRunNumber - 1, " numbered ones exist; choose another name"));
}

absl::StatusOr<std::string> FindClaimedRun(ObjectStore& store, std::string_view run,
                                           std::string_view capture_id) {
  for (int number = 1, unclaimed = 0; number <= kMaxRunNumber && unclaimed < 2; ++number) {
    const std::string name = NumberedRun(run, number);
    ASSIGN_OR_RETURN(const Owner owner, ClaimOf(store, name, capture_id));
    if (owner == Owner::kUs) return name;
    unclaimed += owner == Owner::kNobody ? 1 : 0;
  }
  // A capture whose workers may write but not read the logdir has no claim; its run has this name.
  const std::string hashed = UnclaimedRun(run, capture_id);
  ASSIGN_OR_RETURN(const bool used, HasFiles(store, RunPrefix(hashed)));
  if (used) return hashed;
  return absl::NotFoundError(StrCat("capture ", capture_id, " has not claimed run ", run));
}

}  // namespace strobe::storage
