#include "cli/output_file.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

// Writes through zlib in both cases: its mode "T" does not compress.
class GzipFile final : public OutputFile {
 public:
  GzipFile(std::string path, std::string hidden, gzFile file)
      : path_(std::move(path)), hidden_(std::move(hidden)), file_(file) {}
  ~GzipFile() override {
    if (file_ == nullptr) return;
    gzclose(file_);
    Forget();
  }

  absl::Status Write(std::string_view piece) override {
    constexpr std::size_t kMaxPiece = 1 << 30;  // zlib's lengths are unsigned int.
    while (!piece.empty()) {
      const auto some = static_cast<unsigned>(std::min(piece.size(), kMaxPiece));
      if (gzwrite(file_, piece.data(), some) != static_cast<int>(some))
        return absl::ErrnoToStatus(errno, StrCat("cannot write ", path_));
      piece.remove_prefix(some);
    }
    return absl::OkStatus();
  }

  absl::Status Finish(std::uint64_t& bytes) override {
    gzFile file = std::exchange(file_, nullptr);
    struct stat status = {};
    if (gzclose(file) != Z_OK || stat(hidden_.c_str(), &status) != 0 ||
        (hidden_ != path_ && std::rename(hidden_.c_str(), path_.c_str()) != 0)) {
      const absl::Status failure = absl::ErrnoToStatus(errno, StrCat("cannot write ", path_));
      Forget();
      return failure;
    }
    bytes = static_cast<std::uint64_t>(status.st_size);
    return absl::OkStatus();
  }

 private:
  void Forget() const {
    if (hidden_ != path_) unlink(hidden_.c_str());
  }

  const std::string path_, hidden_;  // Equal for devices and pipes.
  gzFile file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  // A device or a pipe must be written directly; renaming a file over it would replace it.
  struct stat status = {};
  const bool special = stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  std::string hidden = special ? path : StrCat(path, ".", getpid(), ".partial");
  errno = 0;
  gzFile file = gzopen(hidden.c_str(), std::string_view(path).ends_with(".gz") ? "wb4" : "wbT");
  if (file == nullptr)
    return absl::ErrnoToStatus(errno == 0 ? ENOMEM : errno, StrCat("cannot write ", path));
  gzbuffer(file, 1 << 18);
  return std::make_unique<GzipFile>(path, std::move(hidden), file);
}

}  // namespace strobe
