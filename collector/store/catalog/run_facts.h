// What a list of runs shows of a run's files: of its manifest, read without building it in memory,
// and the headline of its report or verdict on a stall, read without the rest of it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/store/object_store.h"

namespace strobe::catalog {

// How many workers ended with a cause.
struct Cause {
  std::string name{};
  std::uint32_t workers = 0;

  bool operator==(const Cause&) const = default;
};

// All texts are bounded, and valid UTF-8.
struct ManifestFacts {
  std::string request{}, job{}, requester{}, result{}, message{};
  std::int64_t instant_ns = 0;
  bool synchronized = false, skew_known = false;
  std::int64_t skew_ns = 0, skew_error_ns = 0;
  std::uint32_t workers = 0, ok = 0;
  std::uint64_t bytes = 0;      // All traces.
  std::vector<Cause> causes{};  // The most frequent first; at most kMaxCauses.
};
inline constexpr std::size_t kMaxCauses = 8;

struct WorkerFacts {
  std::string name{}, pod{}, role{}, outcome{}, message{};
  std::int64_t rank = -1, lateness_ns = 0, clock_offset_ns = 0, clock_error_ns = -1, started_ns = 0;
  std::uint64_t bytes = 0, events = 0;
};

// `each` is called for each worker, in the manifest's order; it may be empty. InvalidArgument if
// the text is no JSON object. Fields that are not known or of another kind are left out.
absl::StatusOr<ManifestFacts> ReadManifestFacts(
    std::string_view text, const std::function<void(const WorkerFacts&)>& each = {});

// The headline of a run's report or verdict on a stall, read without the rest of it.
inline constexpr std::size_t kMaxHeadlineBytes = 300;

// The headline in the first bytes of report.json or evidence.json; empty if it is not there.
// Bounded and valid UTF-8. Pure.
std::string HeadlineIn(std::string_view head);

// Reads these bytes. Empty if the run has neither or the store does not give it: a list of runs
// is of use without headlines.
std::string ReadHeadline(storage::ObjectStore& store, const std::string& run);

}  // namespace strobe::catalog
