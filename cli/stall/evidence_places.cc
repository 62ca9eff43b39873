#include "cli/stall/evidence_places.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "collector/stall/evidence_files.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFiles = 100'000;
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{64} << 20;
constexpr char kWhatIsRead[] =
    "Flight Recorder's dumps (TORCH_NCCL_DEBUG_INFO_TEMP_FILE), answers of NCCL's RAS, and stacks "
    "of faulthandler, py-spy dump or Strobe";

absl::StatusOr<std::vector<fs::path>> FilesBelow(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code gone;
    if (!at->is_regular_file(gone)) continue;
    files.push_back(at->path());
    if (files.size() > kMaxFiles)
      return absl::InvalidArgumentError(
          StrCat(folder.native(), " has more than ", kMaxFiles, " files; name a smaller folder"));
  }
  if (error)
    return absl::NotFoundError(StrCat("cannot read ", folder.native(), ": ", error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) return absl::NotFoundError(StrCat("cannot read ", path.native()));
  if (size > kMaxFileBytes)
    return absl::DataLossError(StrCat("it has more than ", kMaxFileBytes, " bytes"));
  return ReadTextFile(path.native());
}

void AddFile(const fs::path& path, std::string_view bytes, FoundEvidence& found) {
  const absl::Status added = stall::AddEvidence(path.filename().native(), bytes, found.evidence);
  if (!added.ok()) found.left_out.push_back(StrCat(path.native(), ": ", MessageOf(added)));
}

absl::Status AddPlace(const std::string& place, FoundEvidence& found) {
  const fs::path path(place);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return absl::NotFoundError(StrCat("there is no ", place));
  if (fs::is_directory(status)) {
    ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesBelow(path));
    for (const fs::path& file : files) {
      const absl::StatusOr<std::string> bytes = ReadFile(file);
      if (bytes.ok())
        AddFile(file, *bytes, found);
      else
        found.left_out.push_back(StrCat(file.native(), ": ", MessageOf(bytes.status())));
    }
    return absl::OkStatus();
  }
  if (!fs::is_regular_file(status))
    return absl::InvalidArgumentError(StrCat(place, " is neither a file nor a folder"));
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  if (stall::KindOfEvidence(bytes) == stall::EvidenceKind::kNoEvidence)
    return absl::InvalidArgumentError(
        StrCat(place, " is no evidence; strobe why reads ", kWhatIsRead));
  AddFile(path, bytes, found);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FoundEvidence> ReadEvidence(const std::vector<std::string>& places) {
  FoundEvidence found;
  for (const std::string& place : places) RETURN_IF_ERROR(AddPlace(place, found));
  const stall::JobEvidence& evidence = found.evidence;
  const bool any =
      !evidence.ras.empty() ||
      std::any_of(evidence.ranks.begin(), evidence.ranks.end(), [](const auto& one) {
        return one.second.speaks() || one.second.state != stall::ProcessState::kUnknown;
      });
  if (any) return found;
  if (!found.left_out.empty()) return absl::DataLossError(found.left_out.front());
  return absl::NotFoundError(
      StrCat("there is no evidence in ", Join(places, ", "), "; strobe why reads ", kWhatIsRead));
}

}  // namespace strobe::cli
