// The entries of a logdir as text, to be kept in a file beside the indexes. Pure.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/store/catalog/run_search.h"

namespace strobe::catalog {

// Files larger than this are not read.
inline constexpr std::uint64_t kMaxEntriesFileBytes = 256u << 20;

// The file's name, which depends on the logdir.
std::string EntriesFileName(std::string_view logdir);
// Passes the file's text to `write` piece by piece.
absl::Status WriteEntries(const LogdirRuns& runs,
                          const std::function<absl::Status(std::string_view)>& write);
// The entries that WriteEntries wrote. FailedPrecondition if they are another logdir's or another
// version's, DataLoss if the text is damaged.
absl::StatusOr<LogdirRuns> ReadEntries(std::string_view text, std::string_view logdir);

}  // namespace strobe::catalog
