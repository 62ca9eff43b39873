#include "collector/storage/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "collector/base/status_macros.h"
#include "collector/base/strings.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

absl::Status FromErrno(int error, std::string_view doing, std::string_view path) {
  const std::string text =
      StrCat("cannot ", doing, " ", path, ": ", std::generic_category().message(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  int Close() { return close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    // One call writes at most 2 GiB on Linux.
    const ssize_t written = write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 1u << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FromErrno(errno, "write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
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

absl::Status FileStore::Put(std::string_view key, std::span<const std::string_view> pieces) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(key));
  const fs::path target(path);
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) return FromErrno(error.value(), "create", target.parent_path().native());
  std::string temporary =
      StrCat(target.parent_path().native(), "/.", target.filename().native(), ".XXXXXX");
  FileDescriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return FromErrno(errno, "create a file in", target.parent_path().native());
  absl::Status status;
  for (const std::string_view piece : pieces) {
    if (status.ok()) status = WriteAll(file.get(), piece, path);
  }
  // mkostemp makes the file private; a viewer is usually another user.
  if (status.ok() && fchmod(file.get(), 0644) != 0) status = FromErrno(errno, "open up", path);
  if (status.ok() && file.Close() != 0) status = FromErrno(errno, "close", path);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0)
    status = FromErrno(errno, "rename to", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

absl::StatusOr<std::string> FileStore::Get(std::string_view key) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(key));
  std::ifstream in(path, std::ios::binary);
  if (!in) return FromErrno(errno, "read", path);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

absl::StatusOr<std::vector<StoredObject>> FileStore::List(std::string_view prefix) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(prefix));
  std::vector<StoredObject> objects;
  std::error_code error;
  const std::size_t skip = root_.size() + (root_ == "/" ? 0 : 1);
  for (fs::recursive_directory_iterator
           it(path, fs::directory_options::skip_permission_denied, error),
       end;
       !error && it != end; it.increment(error)) {
    if (!it->is_regular_file(error) || it->path().filename().native().front() == '.') continue;
    objects.push_back({it->path().native().substr(skip), it->file_size(error)});
  }
  if (error && error.value() != ENOENT) return FromErrno(error.value(), "list", path);
  std::sort(objects.begin(), objects.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return objects;
}

absl::Status FileStore::Delete(std::string_view key) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(key));
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return FromErrno(errno, "delete", path);
  // A run whose last object went leaves no empty directory behind; rmdir refuses the others.
  rmdir(fs::path(path).parent_path().c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ObjectStore>> BuiltInStores::Open(const Logdir& logdir) {
  if (logdir.scheme() == "file") return std::make_unique<FileStore>(logdir.path());
  return absl::InvalidArgumentError(
      StrCat("logdir ", logdir.url(),
             ": this build writes to file:// logdirs only; mount the bucket and give its path"));
}

}  // namespace strobe
