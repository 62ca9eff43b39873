#include "cli/logdir_library.h"

#include <algorithm>

#include "cli/runs.h"
#include "common/base/log.h"
#include "common/base/name_rules.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

constexpr std::size_t kListers = 8;  // Libraries listed at the same time.

std::string RunIn(const std::string& name) { return name.substr(name.find('/') + 1); }

}  // namespace

absl::StatusOr<std::vector<std::string>> LogdirRuns::Runs() {
  ASSIGN_OR_RETURN(std::vector<std::string> runs, ListRuns(*open_.store));
  const auto first = std::find(runs.begin(), runs.end(), open_.place.run);
  if (first != runs.end()) std::rotate(runs.begin(), first, first + 1);
  return runs;
}

absl::StatusOr<std::vector<convert::OpenTrace>> LogdirRuns::Open(const std::string& run) {
  return OpenTraces(WithOptions(open_.place.logdir.RunUrl(run)), storage_config_, reading_);
}

std::string LogdirRuns::WithOptions(std::string url) const {
  char separator = '?';
  for (const auto& [name, value] : open_.place.logdir.options()) {
    url += StrCat(std::string_view(&separator, 1), name, "=", value);
    separator = '&';
  }
  return url;
}

absl::StatusOr<std::vector<std::string>> JoinedLibraries::Runs() {
  std::vector<absl::StatusOr<std::vector<std::string>>> listed(parts_.size(),
                                                               absl::UnknownError("not listed"));
  ParallelFor(parts_.size(), kListers,
              [&](std::size_t i) { listed[i] = parts_[i].library->Runs(); });
  std::vector<std::string> runs;
  absl::Status failed;
  std::size_t failures = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (listed[i].ok()) {
      for (const std::string& run : *listed[i]) runs.push_back(StrCat(parts_[i].name, "/", run));
      continue;
    }
    ++failures;
    failed.Update(listed[i].status());
    LogWarning("a logdir cannot be listed",
               {{"logdir", parts_[i].name}, {"error", MessageOf(listed[i].status())}});
  }
  if (failures > 0 && failures == parts_.size()) return failed;
  std::stable_sort(runs.begin(), runs.end(),
                   [](const std::string& a, const std::string& b) { return RunIn(a) > RunIn(b); });
  return runs;
}

absl::StatusOr<std::vector<convert::OpenTrace>> JoinedLibraries::Open(const std::string& run) {
  const NamedLibrary* const part = PartOf(run);
  if (part == nullptr) return absl::NotFoundError(StrCat("there is no run ", run));
  return part->library->Open(RunIn(run));
}

std::string JoinedLibraries::place() const {
  if (parts_.empty()) return "What you may see";
  std::vector<std::string> names;
  for (const NamedLibrary& part : parts_) names.push_back(part.name);
  return Join(names, ", ");
}

const NamedLibrary* JoinedLibraries::PartOf(const std::string& run) const {
  const std::size_t slash = run.find('/');
  if (slash == std::string::npos || !IsSafeName(std::string_view(run).substr(slash + 1)))
    return nullptr;
  const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const NamedLibrary& each) {
    return each.name == std::string_view(run).substr(0, slash);
  });
  return part == parts_.end() ? nullptr : &*part;
}

}  // namespace strobe
