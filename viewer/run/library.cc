#include "viewer/run/library.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::viewer {

bool IsNameInFolder(std::string_view part) {
  constexpr std::size_t kMaxName = 255;
  return !part.empty() && part.size() <= kMaxName && part != "." && part != ".." &&
         part.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos && IsUtf8(part);
}

absl::Status Library::Find(const std::string& run) {
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, Runs(catalog::kAllVisible, kAllRuns));
  if (std::find(runs.begin(), runs.end(), run) != runs.end()) return absl::OkStatus();
  return absl::NotFoundError(StrCat("there is no run ", run.substr(0, 200)));
}

absl::StatusOr<std::string> Library::StampOf(const std::string& /*run*/) { return std::string(); }

absl::StatusOr<StoredRun> Library::Store(const std::string& /*run*/) {
  return absl::NotFoundError("this is no run of a logdir");
}

}  // namespace strobe::viewer
