#include "cli/base/output_file.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;

struct OutputLocation {
  std::string path{};   // Where links lead to, unless it is written directly.
  bool direct = false;  // A file that is renamed to it would replace what must be written.
};

// Whether the system's own folders /dev or /proc hold the file.
bool IsSystems(const fs::path& file) {
  std::error_code error;
  const std::string folder =
      StrCat(fs::canonical(file.has_parent_path() ? file.parent_path() : ".", error).native(), "/");
  return !error && (folder.starts_with("/dev/") || folder.starts_with("/proc/"));
}

absl::StatusOr<OutputLocation> PlaceOf(const std::string& path) {
  constexpr int kMostLinks = 40;  // As many as Linux follows.
  fs::path at = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(at, error);
    if (!fs::is_symlink(status))
      return OutputLocation{at.native(), fs::exists(status) && !fs::is_regular_file(status)};
    if (IsSystems(at)) return OutputLocation{.path = path, .direct = true};
    const fs::path target = fs::read_symlink(at, error);
    if (error) return absl::ErrnoToStatus(error.value(), StrCat("cannot write ", path));
    at = at.parent_path() / target;
  }
  return absl::ErrnoToStatus(ELOOP, StrCat("cannot write ", path));
}

// Writes through zlib in both cases: its mode "T" does not compress.
class GzipFile final : public OutputFile {
 public:
  GzipFile(OutputLocation place, std::string hidden, gzFile file)
      : path_(std::move(place.path)), hidden_(std::move(hidden)), file_(file) {}
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

  const std::string path_, hidden_;  // Equal for what is written directly.
  gzFile file_;
};

}  // namespace

bool OutputFile::IsDirect(const std::string& path) {
  const absl::StatusOr<OutputLocation> place = PlaceOf(path);
  return place.ok() && place->direct;
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  ASSIGN_OR_RETURN(OutputLocation place, PlaceOf(path));
  std::string hidden = place.direct ? place.path : StrCat(place.path, ".", getpid(), ".partial");
  // 4 and T: the level of the compression, or none.
  const std::string mode =
      StrCat(place.direct ? "ab" : "wb", std::string_view(path).ends_with(".gz") ? "4" : "T");
  errno = 0;
  gzFile file = gzopen(hidden.c_str(), mode.c_str());
  if (file == nullptr)
    return absl::ErrnoToStatus(errno == 0 ? ENOMEM : errno, StrCat("cannot write ", path));
  gzbuffer(file, 1 << 18);
  return std::make_unique<GzipFile>(std::move(place), std::move(hidden), file);
}

}  // namespace strobe::cli
