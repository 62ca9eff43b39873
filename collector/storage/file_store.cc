#include "collector/storage/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "collector/base/status_macros.h"
#include "collector/base/strings.h"
#include "collector/storage/file_bytes.h"
#include "collector/storage/file_error.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kStep = 1 << 20;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(errno, "write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

// `hidden` gets the name `path`; with create_only only when nothing has it.
absl::Status TakeName(const std::string& hidden, const std::string& path, bool create_only) {
  if (create_only) {
    if (link(hidden.c_str(), path.c_str()) == 0) {
      unlink(hidden.c_str());
      return absl::OkStatus();
    }
    if (errno == EEXIST) return FileError(errno, "create", path);
    // Mounted buckets have no links. Put has looked whether the name is free.
  }
  if (rename(hidden.c_str(), path.c_str()) != 0) return FileError(errno, "rename to", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FileStore::PathOf(std::string_view key) const {
  for (const std::string& part : Split(key, '/')) {
    if (part == "..")
      return absl::InvalidArgumentError(StrCat("key \"", key, "\" climbs out of the logdir"));
  }
  return StrCat(root_, root_ == "/" ? "" : "/", key);
}

absl::Status FileStore::Put(std::string_view key, const ByteSource& bytes,
                            const PutOptions& options) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(key));
  const fs::path target(path);
  std::error_code error;
  if (options.create_only && fs::exists(target, error)) return FileError(EEXIST, "create", path);
  fs::create_directories(target.parent_path(), error);
  if (error) return FileError(error.value(), "create", target.parent_path().native());
  const std::string hidden =
      StrCat(target.parent_path().native(), "/.", target.filename().native(), ".partial");
  FileDescriptor file(open(hidden.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (file.get() < 0) return FileError(errno, "create", hidden);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return absl::UnavailableError(StrCat("another process is writing ", path));
  // Whoever held the lock until now may have given the file its name; it is not ours to empty then.
  struct stat ours = {}, named = {};
  if (fstat(file.get(), &ours) != 0 || stat(hidden.c_str(), &named) != 0 ||
      ours.st_ino != named.st_ino) {
    return absl::UnavailableError(StrCat("another process has just written ", path));
  }
  absl::Status status;
  if (ftruncate(file.get(), 0) != 0) status = FileError(errno, "empty", hidden);
  // A viewer is usually another user.
  if (status.ok() && fchmod(file.get(), 0644) != 0) status = FileError(errno, "open up", hidden);
  std::vector<char> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), kStep)));
  for (std::uint64_t done = 0; status.ok() && done < bytes.size();) {
    const std::span<char> some(buffer.data(), static_cast<std::size_t>(std::min<std::uint64_t>(
                                                  kStep, bytes.size() - done)));
    if (cancellation_ != nullptr && cancellation_->cancelled())
      status = absl::CancelledError("cancelled");
    status.Update(bytes.Read(done, some));
    if (status.ok()) status = WriteAll(file.get(), {some.data(), some.size()}, path);
    done += some.size();
  }
  // A name that points at bytes which a crash of the machine could lose would be a lie.
  if (status.ok() && fsync(file.get()) != 0 && errno != EINVAL)
    status = FileError(errno, "flush", path);
  if (status.ok()) status = TakeName(hidden, path, options.create_only);
  if (!status.ok()) unlink(hidden.c_str());
  return status;
}

absl::StatusOr<ObjectInfo> FileStore::Stat(std::string_view key) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(key));
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return FileError(errno, "look up", path);
  if (!S_ISREG(found.st_mode)) return FileError(ENOENT, "look up", path);
  return ObjectInfo{.bytes = static_cast<std::uint64_t>(found.st_size)};
}

absl::StatusOr<std::size_t> FileStore::Read(std::string_view key, std::uint64_t offset,
                                            std::span<char> into) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(key));
  ASSIGN_OR_RETURN(const std::unique_ptr<FileBytes> file, FileBytes::Open(path));
  if (offset >= file->size()) return 0;
  into = into.first(
      static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), file->size() - offset)));
  RETURN_IF_ERROR(file->Read(offset, into));
  return into.size();
}

absl::Status FileStore::List(std::string_view prefix, const Visitor& visit) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(prefix));
  std::error_code error;
  const std::size_t skip = root_.size() + (root_ == "/" ? 0 : 1);
  for (fs::recursive_directory_iterator
           it(path, fs::directory_options::skip_permission_denied, error),
       end;
       !error && it != end; it.increment(error)) {
    if (it->path().filename().native().front() == '.' || !it->is_regular_file(error)) continue;
    if (!visit({.key = it->path().native().substr(skip), .bytes = it->file_size(error)})) break;
  }
  if (error && error.value() != ENOENT) return FileError(error.value(), "list", path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FileStore::ListDirectories(std::string_view prefix) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(prefix));
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().native();
    if (name.front() != '.' && it->is_directory(error)) names.push_back(name);
  }
  if (error && error.value() != ENOENT) return FileError(error.value(), "list", path);
  return names;
}

absl::Status FileStore::Delete(std::span<const std::string> keys) {
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(const std::string path, PathOf(key));
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return FileError(errno, "delete", path);
    // A run whose last object went leaves no empty directory behind; rmdir refuses the others.
    rmdir(fs::path(path).parent_path().c_str());
  }
  return absl::OkStatus();
}

}  // namespace strobe
