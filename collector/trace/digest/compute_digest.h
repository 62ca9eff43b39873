// Computes the digest of a trace. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/trace/digest/digest.h"
#include "collector/trace/xplane/space.h"
#include "common/base/cancellation.h"

namespace strobe::digest {

// Reads every event of the trace once; only streams whose events are not sorted by time are read
// twice. The lines' time stamps must count from the trace's zero, as those of convert::ReadSpace
// do. Besides the Space it takes a few MiB of memory, and 16 bytes per launch and, on workers
// without a device, per operation. DataLoss when the trace is damaged; Cancelled soon after `stop`
// is set, if it is given. `zero_ns` is the trace's zero; without it, the one that the trace's
// planes tell, which is not known where only Unix times of lines told it.
absl::StatusOr<Digest> ComputeDigest(const xplane::Space& space, std::string_view worker,
                                     const Cancellation* stop = nullptr,
                                     std::optional<std::int64_t> zero_ns = std::nullopt);

// False if no name in the trace is that of a collective, so that its digest would have none. Reads
// names only, which costs next to nothing.
bool MayHaveCollectives(const xplane::Space& space);

}  // namespace strobe::digest
