#include "sidecar/main/install.h"

#include <sys/stat.h>

#include <filesystem>

#include "common/base/strings.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

absl::Status CopyFile(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const fs::path hidden = to.parent_path() / ("." + to.filename().native());
  fs::copy_file(from, hidden, fs::copy_options::overwrite_existing, error);
  // In one step, so that the trainer never loads an unfinished copy.
  if (!error) fs::rename(hidden, to, error);
  if (error) return absl::UnavailableError(StrCat(to.native(), ": ", error.message()));
  return absl::OkStatus();
}

absl::Status CopyTree(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return absl::UnavailableError(StrCat(to.native(), ": ", error.message()));
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const absl::Status copied = entry.is_directory()
                                    ? CopyTree(entry.path(), to / entry.path().filename())
                                    : CopyFile(entry.path(), to / entry.path().filename());
    if (!copied.ok()) return copied;
  }
  if (error) return absl::UnavailableError(StrCat(from.native(), ": ", error.message()));
  return absl::OkStatus();
}

}  // namespace

absl::Status InstallAgent(const std::string& dir) {
  std::error_code error;
  const fs::path home = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  // The trainer, usually another user than the sidecar, creates its ring files in there.
  fs::create_directories(fs::path(dir) / "agent", error);
  chmod((fs::path(dir) / "agent").c_str(), 01777);
  if (const absl::Status status = CopyTree(home / "lib", fs::path(dir) / "lib"); !status.ok())
    return status;
  if (!fs::exists(home / "python", error)) return absl::OkStatus();
  return CopyTree(home / "python", fs::path(dir) / "python");
}

}  // namespace strobe
