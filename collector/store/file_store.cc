#include "collector/store/file_store.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "collector/store/beneath.h"
#include "collector/store/store_error.h"
#include "common/base/file_descriptor.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

constexpr std::uint64_t kStep = 1 << 20;
constexpr int kDeepest = 64;             // Limit on nested folders.
constexpr char kPartial[] = ".partial";  // What the names of hidden files end with.

// A key's opened folder and its file name.
struct FileLocation {
  FileDescriptor folder{};
  std::string root{}, parent{}, name{};  // The parent is relative to the root.

  std::string path() const {
    return StrCat(root == "/" ? "" : root, "/", parent, parent.empty() ? "" : "/", name);
  }
};

absl::StatusOr<FileLocation> Find(const std::string& root, std::string_view key, Missing missing) {
  const std::size_t slash = key.rfind('/');
  FileLocation place{
      .root = root,
      .parent = std::string(slash == std::string_view::npos ? "" : key.substr(0, slash)),
      .name = std::string(slash == std::string_view::npos ? key : key.substr(slash + 1))};
  if (place.name.empty() || place.name == "." || place.name == "..")
    return absl::InvalidArgumentError(StrCat("key \"", key, "\" has no file name"));
  ASSIGN_OR_RETURN(place.folder, OpenFolder(root, place.parent, missing));
  return place;
}

// Returns the name of the hidden file. A hash replaces a name that would be too long in it.
std::string HiddenName(const std::string& name) {
  std::string hidden = StrCat(".", name, kPartial);
  if (hidden.size() <= NAME_MAX) return hidden;
  Sha256 hash;
  hash.Update(name);
  return StrCat(".", hash.Hex(), kPartial);
}

// Opens and locks the hidden file for writing. An existing entry is removed if it is not a regular
// file or has a second name; others, or a process that was killed, may have left it.
absl::StatusOr<FileDescriptor> OpenHidden(const FileLocation& place, const std::string& hidden) {
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    FileDescriptor file(openat(place.folder.get(), hidden.c_str(),
                               O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
    if (file.get() < 0 && errno != ELOOP && errno != ENXIO)
      return FileError(errno, "create", place.path());
    if (file.get() >= 0) {
      if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return absl::UnavailableError(StrCat("another process is writing ", place.path()));
      struct stat ours = {}, named = {};
      // The process that held the lock may have given the file its final name. The open file is
      // then the finished object of that process.
      if (fstat(file.get(), &ours) != 0 ||
          fstatat(place.folder.get(), hidden.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 ||
          ours.st_ino != named.st_ino)
        return absl::UnavailableError(StrCat("another process has just written ", place.path()));
      if (S_ISREG(ours.st_mode) && ours.st_nlink <= 1) return file;
    }
    unlinkat(place.folder.get(), hidden.c_str(), 0);
  }
  return absl::UnavailableError(StrCat("another process interferes with ", place.path()));
}

// A viewer usually runs as another user. File systems that give all files one owner, such as SMB,
// have modes of their own and refuse to change them.
absl::Status LetOthersRead(const FileDescriptor& file, const FileLocation& place) {
  constexpr mode_t kMode = 0644;
  if (fchmod(file.get(), kMode) == 0) return absl::OkStatus();
  const int error = errno;
  if (error == EPERM || error == ENOTSUP || error == ENOSYS || error == EINVAL)
    return absl::OkStatus();
  return FileError(error, "change the mode of", place.path());
}

// False if it is not empty, or cannot be removed for another reason.
bool RemoveFolder(const FileLocation& folder) {
  return unlinkat(folder.folder.get(), folder.name.c_str(), AT_REMOVEDIR) == 0;
}

// Gives the hidden file its final name. With create_only, only if the name is free.
absl::Status TakeName(const FileLocation& place, const std::string& hidden, bool create_only) {
  const int folder = place.folder.get();
  if (create_only) {
    if (linkat(folder, hidden.c_str(), folder, place.name.c_str(), 0) == 0) {
      unlinkat(folder, hidden.c_str(), 0);
      return absl::OkStatus();
    }
    if (errno == EEXIST) return FileError(errno, "create", place.path());
    // Mounted buckets do not support hard links.
    if (renameat2(folder, hidden.c_str(), folder, place.name.c_str(), RENAME_NOREPLACE) == 0)
      return absl::OkStatus();
    if (errno == EEXIST) return FileError(errno, "create", place.path());
    // Some do not support this flag either. Put has checked that the name is free.
  }
  if (renameat(folder, hidden.c_str(), folder, place.name.c_str()) != 0)
    return FileError(errno, "rename to", place.path());
  return absl::OkStatus();
}

absl::Status ListBelow(const FileDescriptor& folder, const std::string& prefix, int depth,
                       const ObjectStore::Visitor& visit, bool& more) {
  ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, ReadFolder(folder));
  // As buckets tell an empty folder, so that it can be deleted.
  if (entries.empty() && !prefix.empty()) more = visit({.key = prefix});
  for (const FolderEntry& entry : entries) {
    if (!more) break;
    if (!entry.is_folder) {
      // Inode numbers are left out: those of mounted buckets are made up.
      more = visit(
          {.key = prefix + entry.name, .bytes = entry.bytes, .version = StrCat(entry.changed_ns)});
      continue;
    }
    if (depth == kDeepest)
      return absl::FailedPreconditionError(
          StrCat(prefix, " has more than ", kDeepest, " nested folders"));
    FileDescriptor inner(
        openat(folder.get(), entry.name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const absl::Status listed =
        inner.get() < 0 ? FileError(errno, "list", prefix + entry.name)
                        : ListBelow(inner, StrCat(prefix, entry.name, "/"), depth + 1, visit, more);
    // The folder was removed meanwhile, or is not readable.
    if (!absl::IsNotFound(listed) && !absl::IsPermissionDenied(listed)) RETURN_IF_ERROR(listed);
  }
  return absl::OkStatus();
}

absl::Status MissingIsFine(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace

absl::Status FileStore::Put(std::string_view key, const ByteSource& bytes,
                            const PutOptions& options) {
  ASSIGN_OR_RETURN(const FileLocation place, Find(root_, key, Missing::kIsMade));
  struct stat there = {};
  const bool exists =
      fstatat(place.folder.get(), place.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists && options.create_only) return FileError(EEXIST, "create", place.path());
  // Renaming would fail as well, but only after all bytes were written.
  if (!exists && errno == ENAMETOOLONG) return FileError(errno, "create", place.path());
  const std::string hidden = HiddenName(place.name);
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenHidden(place, hidden));
  absl::Status status;
  if (ftruncate(file.get(), 0) != 0) status = FileError(errno, "empty", place.path());
  if (status.ok()) status = LetOthersRead(file, place);
  std::vector<char> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), kStep)));
  for (std::uint64_t done = 0; status.ok() && done < bytes.size();) {
    const std::span<char> some(buffer.data(), static_cast<std::size_t>(std::min<std::uint64_t>(
                                                  kStep, bytes.size() - done)));
    if (cancelled()) status = absl::CancelledError("cancelled");
    status.Update(bytes.Read(done, some));
    if (status.ok()) {
      const int error = WriteAll(file.get(), {some.data(), some.size()});
      if (error != 0) status = FileError(error, "write", place.path());
    }
    done += some.size();
  }
  // Flushes before the file gets its name, so that a crash of the machine cannot leave a name
  // without the content.
  if (status.ok()) {
    const int error = FlushFile(file.get());
    if (error != 0) status = FileError(error, "flush", place.path());
  }
  if (status.ok() && cancelled()) status = absl::CancelledError("cancelled");
  if (status.ok()) status = TakeName(place, hidden, options.create_only);
  if (!status.ok()) {
    unlinkat(place.folder.get(), hidden.c_str(), 0);
    return status;
  }
  // Without this, a crash of the machine could take the name away again.
  if (const int error = FlushFolder(place.folder.get(), "."); error != 0)
    return FileError(error, "flush the folder of", place.path());
  return absl::OkStatus();
}

// Folders that do not exist yet are made in the innermost one that does.
absl::Status FileStore::CheckWritable(std::string_view prefix) {
  std::filesystem::path at = std::filesystem::path(root_) / prefix, missing;
  while (faccessat(AT_FDCWD, (at / ".").c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    const int error = errno;
    if (error != ENOENT || !at.has_relative_path())
      return missing.empty() ? FileError(error, "write into", at.native())
                             : FileError(error, "create", missing.native());
    missing = at;
    at = at.parent_path();
  }
  return absl::OkStatus();
}

absl::StatusOr<ObjectInfo> FileStore::Stat(std::string_view key) {
  ASSIGN_OR_RETURN(const FileLocation place, Find(root_, key, Missing::kIsAnError));
  struct stat found = {};
  if (fstatat(place.folder.get(), place.name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0)
    return FileError(errno, "look up", place.path());
  if (!S_ISREG(found.st_mode)) return FileError(ENOENT, "look up", place.path());
  return ObjectInfo{.bytes = static_cast<std::uint64_t>(found.st_size)};
}

absl::StatusOr<std::size_t> FileStore::Read(std::string_view key, std::uint64_t offset,
                                            std::span<char> into) {
  ASSIGN_OR_RETURN(const FileLocation place, Find(root_, key, Missing::kIsAnError));
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFileIn(place.folder, place.name));
  std::size_t got = 0;
  while (got < into.size()) {
    const ssize_t some =
        pread(file.get(), into.data() + got, into.size() - got, static_cast<off_t>(offset + got));
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return FileError(errno, "read", place.path());
    if (some == 0) break;
    got += static_cast<std::size_t>(some);
  }
  return got;
}

absl::Status FileStore::ListUnchecked(std::string_view prefix, const Visitor& visit) {
  const absl::StatusOr<FileDescriptor> folder = OpenFolder(root_, prefix, Missing::kIsAnError);
  if (!folder.ok()) return MissingIsFine(folder.status());
  bool more = true;
  return ListBelow(*folder, std::string(prefix), 0, visit, more);
}

absl::StatusOr<std::vector<std::string>> FileStore::ListDirectoriesUnchecked(
    std::string_view prefix) {
  std::vector<std::string> names;
  const absl::StatusOr<FileDescriptor> folder = OpenFolder(root_, prefix, Missing::kIsAnError);
  if (!folder.ok()) {
    RETURN_IF_ERROR(MissingIsFine(folder.status()));
    return names;
  }
  ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, ReadFolder(*folder));
  for (const FolderEntry& entry : entries) {
    if (entry.is_folder) names.push_back(entry.name);
  }
  return names;
}

absl::Status FileStore::Delete(std::span<const std::string> keys) {
  std::set<std::string> left;  // Folders that had something in them after their last object.
  for (const std::string& key : keys) {
    if (cancelled()) return absl::CancelledError("cancelled");
    if (key.ends_with('/')) {
      left.insert(key.substr(0, key.size() - 1));
      continue;
    }
    const absl::StatusOr<FileLocation> place = Find(root_, key, Missing::kIsAnError);
    if (absl::IsNotFound(place.status())) continue;
    RETURN_IF_ERROR(place.status());
    if (unlinkat(place->folder.get(), place->name.c_str(), 0) != 0 && errno != ENOENT)
      return FileError(errno, "delete", place->path());
    if (place->parent.empty()) continue;
    // Removes the folder if it is empty now; rmdir refuses others.
    const absl::StatusOr<FileLocation> folder = Find(root_, place->parent, Missing::kIsAnError);
    if (!folder.ok() || RemoveFolder(*folder))
      left.erase(place->parent);
    else
      left.insert(place->parent);
  }
  for (auto parent = left.rbegin(); parent != left.rend(); ++parent) RemoveAbandoned(*parent);
  return absl::OkStatus();
}

// Listed once per folder and not after each object: a run may have thousands.
void FileStore::RemoveAbandoned(const std::string& parent) {
  const absl::StatusOr<FileDescriptor> folder = OpenFolder(root_, parent, Missing::kIsAnError);
  const absl::StatusOr<FileLocation> place = Find(root_, parent, Missing::kIsAnError);
  if (!folder.ok() || !place.ok()) return;
  const absl::StatusOr<std::vector<FolderEntry>> shown = ReadFolder(*folder);
  const absl::StatusOr<std::vector<FolderEntry>> hidden = ReadFolder(*folder, Names::kHidden);
  if (!shown.ok() || !shown->empty() || !hidden.ok()) return;
  for (const FolderEntry& entry : *hidden) {
    if (entry.is_folder || !entry.name.ends_with(kPartial)) continue;
    // A file that is being written is locked.
    const absl::StatusOr<FileDescriptor> file = OpenFileIn(*folder, entry.name);
    if (file.ok() && flock(file->get(), LOCK_EX | LOCK_NB) == 0)
      unlinkat(folder->get(), entry.name.c_str(), 0);
  }
  RemoveFolder(*place);
}

}  // namespace strobe::storage
