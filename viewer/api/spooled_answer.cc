#include "viewer/api/spooled_answer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/base/file_descriptor.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::viewer {
namespace {

// What a file's share grows by.
constexpr std::uint64_t kShareStep = std::uint64_t{1} << 20;

}  // namespace

class ScratchFile final : public http::BodySource {
 public:
  static absl::StatusOr<std::unique_ptr<ScratchFile>> Create(const Scratch& scratch,
                                                             const std::string& asker) {
    std::string folder = scratch.folder;
    if (folder.empty()) {
      const char* temporary = std::getenv("TMPDIR");
      folder = temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
    }
    std::error_code ignored;  // Told by what follows.
    std::filesystem::create_directories(folder, ignored);
    std::string name = StrCat(folder, "/answer-XXXXXX.part");
    FileDescriptor file(::mkostemps(name.data(), 5, O_CLOEXEC));
    if (file.get() < 0) return absl::ErrnoToStatus(errno, folder);
    ::unlink(name.c_str());
    return std::make_unique<ScratchFile>(std::move(file),
                                         fair::ByteShares::Begin(scratch.shares, asker));
  }
  ScratchFile(FileDescriptor file, fair::ByteShares::Holding held)
      : held_(std::move(held)), file_(std::move(file)) {}

  absl::Status Write(std::string_view piece) {
    if (size_ + piece.size() > held_.bytes() &&
        !held_.Grow(std::max<std::uint64_t>(kShareStep, piece.size())))
      return absl::UnavailableError(
          "the viewer has no room on its disk for this answer beside those that are being sent; "
          "try "
          "again when they have been read, or copy the run with strobe cp");
    if (const int error = WriteAll(file_.get(), piece); error != 0)
      return absl::ErrnoToStatus(error, "the file of a long answer");
    size_ += piece.size();
    return absl::OkStatus();
  }
  std::uint64_t size() const override { return size_; }
  absl::StatusOr<std::size_t> Read(std::uint64_t offset, std::span<char> into) override {
    const ssize_t got = ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0) return absl::ErrnoToStatus(errno, "the file of a long answer");
    return static_cast<std::size_t>(got);
  }

 private:
  // Given back after the file is closed, because it is declared first.
  fair::ByteShares::Holding held_;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

SpooledAnswer::SpooledAnswer(const Scratch& scratch, std::string asker, http::IsGone is_gone)
    : scratch_(scratch), asker_(std::move(asker)), is_gone_(std::move(is_gone)) {}

SpooledAnswer::~SpooledAnswer() = default;

absl::Status SpooledAnswer::Write(std::string_view piece) {
  if (is_gone_ && is_gone_()) return absl::CancelledError("nobody waits for the answer any more");
  if (!gzip_) return Keep(piece);
  std::string compressed;
  gzip_->Add(piece, compressed);
  return Keep(compressed);
}

absl::Status SpooledAnswer::Keep(std::string_view piece) {
  size_ += piece.size();
  if (file_ == nullptr && size_ <= kInMemory) {
    text_ += piece;
    return absl::OkStatus();
  }
  if (file_ == nullptr) {
    ASSIGN_OR_RETURN(file_, ScratchFile::Create(scratch_, asker_));
    RETURN_IF_ERROR(file_->Write(text_));
    text_ = {};
  }
  return file_->Write(piece);
}

absl::Status SpooledAnswer::MoveInto(http::Page& page) {
  if (gzip_) {
    std::string end;
    gzip_->Finish(end);
    RETURN_IF_ERROR(Keep(end));
    page.headers.emplace_back("Content-Encoding", "gzip");
  }
  if (file_ != nullptr)
    page.source = std::move(file_);
  else
    page.body = std::move(text_);
  return absl::OkStatus();
}

}  // namespace strobe::viewer
