#include "collector/store/beneath.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "collector/store/store_error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

// O_PATH, because going through a folder does not require the right to list it.
constexpr int kFolder = O_PATH | O_DIRECTORY | O_CLOEXEC;

// Opens one part of a path relative to the folder before it. No symbolic link is followed, and none
// can be inserted meanwhile.
absl::StatusOr<FileDescriptor> Step(const FileDescriptor& from, const std::string& part,
                                    Missing missing, const std::string& path) {
  int fd = openat(from.get(), part.c_str(), kFolder | O_NOFOLLOW);
  if (fd < 0 && errno == ENOENT && missing == Missing::kIsMade) {
    if (mkdirat(from.get(), part.c_str(), 0777) != 0 && errno != EEXIST)
      return FileError(errno, "create", path);
    fd = openat(from.get(), part.c_str(), kFolder | O_NOFOLLOW);
  }
  if (fd >= 0) return FileDescriptor(fd);
  const int error = errno;
  struct stat found = {};
  if (fstatat(from.get(), part.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode))
    return absl::FailedPreconditionError(
        StrCat(path, " is a symbolic link; none is followed here"));
  return FileError(error, "open", path);
}

}  // namespace

absl::StatusOr<FileDescriptor> OpenFolder(const std::string& root, std::string_view folder,
                                          Missing missing) {
  std::error_code error;
  if (missing == Missing::kIsMade) std::filesystem::create_directories(root, error);
  if (error) return FileError(error.value(), "create", root);
  FileDescriptor at(open(root.c_str(), kFolder));
  if (at.get() < 0) return FileError(errno, "open", root);
  std::string path = root;
  for (const std::string& part : Split(folder, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..")
      return absl::InvalidArgumentError(StrCat("\"", folder, "\" leaves the logdir"));
    path += StrCat(path.ends_with('/') ? "" : "/", part);
    ASSIGN_OR_RETURN(at, Step(at, part, missing, path));
  }
  return at;
}

absl::StatusOr<FileDescriptor> OpenFileIn(const FileDescriptor& folder, const std::string& name) {
  FileDescriptor file(
      openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0 && errno == ELOOP)
    return absl::FailedPreconditionError(
        StrCat(name, " is a symbolic link; none is followed here"));
  if (file.get() < 0) return FileError(errno, "open", name);
  struct stat found = {};
  if (fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode))
    return FileError(ENOENT, "open", name);
  return file;
}

absl::StatusOr<std::vector<FolderEntry>> ReadFolder(const FileDescriptor& folder, Names names) {
  // Opens a new descriptor, because reading moves its position and closedir closes it.
  FileDescriptor own(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const directory = own.get() < 0 ? nullptr : fdopendir(own.get());
  if (directory == nullptr) return FileError(errno, "list", "a directory");
  own.Release();
  std::vector<FolderEntry> entries;
  errno = 0;
  while (const dirent* found = readdir(directory)) {
    const std::string_view name = found->d_name;
    if (name == "." || name == ".." || name.starts_with('.') != (names == Names::kHidden)) continue;
    struct stat status = {};
    if (fstatat(folder.get(), found->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)))
      entries.push_back(
          {.name = found->d_name,
           .is_folder = S_ISDIR(status.st_mode),
           .bytes = static_cast<std::uint64_t>(status.st_size),
           .changed_ns = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec});
    errno = 0;
  }
  const int error = errno;
  closedir(directory);
  if (error != 0) return FileError(error, "list", "a directory");
  return entries;
}

}  // namespace strobe::storage
