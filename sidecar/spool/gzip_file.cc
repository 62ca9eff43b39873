#include "sidecar/spool/gzip_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "collector/store/store_error.h"
#include "common/base/file_descriptor.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::spool {
namespace {

// zlib's compressor, in the format of gzip.
class GzipStream {
 public:
  explicit GzipStream(const std::string& comment) : comment_(comment) {
    constexpr int kWindow = 15, kGzip = 16, kMemory = 8;
    // The fastest level makes such files a tenth as large; better ones take several times as long
    // for a third less.
    usable_ = deflateInit2(&z_, Z_BEST_SPEED, Z_DEFLATED, kWindow + kGzip, kMemory,
                           Z_DEFAULT_STRATEGY) == Z_OK;
    header_.comment = reinterpret_cast<Bytef*>(comment_.data());
    header_.os = 255;  // Unknown.
    usable_ = usable_ && deflateSetHeader(&z_, &header_) == Z_OK;
  }
  ~GzipStream() { deflateEnd(&z_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  bool usable() const { return usable_; }
  void Take(std::span<char> bytes) {
    z_.next_in = reinterpret_cast<Bytef*>(bytes.data());
    z_.avail_in = static_cast<uInt>(bytes.size());
  }
  // Fills a part of `room` and returns its size; 0 when more bytes are needed, and at the end.
  std::size_t Fill(std::span<char> room, bool last) {
    z_.next_out = reinterpret_cast<Bytef*>(room.data());
    z_.avail_out = static_cast<uInt>(room.size());
    (void)deflate(&z_, last ? Z_FINISH : Z_NO_FLUSH);
    return room.size() - z_.avail_out;
  }

 private:
  std::string comment_;
  gz_header header_{};
  z_stream z_{};
  bool usable_ = false;
};

absl::Status Compress(const FileDescriptor& from, const FileDescriptor& to, GzipStream& stream,
                      const GzipLimits& limits) {
  constexpr std::size_t kPiece = 128 << 10;
  std::vector<char> input(kPiece), output(kPiece);
  std::uint64_t size = 0;
  for (bool last = false; !last;) {
    if (limits.check) RETURN_IF_ERROR(limits.check());
    ASSIGN_OR_RETURN(const std::size_t bytes, ReadSome(from, input));
    last = bytes == 0;
    stream.Take(std::span(input).first(bytes));
    while (const std::size_t some = stream.Fill(output, last)) {
      size += some;
      if (size > limits.max_bytes)
        return absl::ResourceExhaustedError(
            StrCat("its compressed size exceeds the ", limits.max_bytes, " bytes allowed"));
      if (const int error = WriteAll(to.get(), {output.data(), some}); error != 0)
        return storage::FileError(error, "write", "the compressed file");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GzipFile(const FileDescriptor& from, const std::string& path,
                      const std::string& comment, const GzipLimits& limits) {
  const FileDescriptor to(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (to.get() < 0) return storage::FileError(errno, "create", path);
  GzipStream stream(comment);
  absl::Status status = stream.usable()
                            ? absl::OkStatus()
                            : absl::ResourceExhaustedError("there is not enough memory for zlib");
  if (lseek(from.get(), 0, SEEK_SET) != 0)
    status = storage::FileError(errno, "read", "the original file");
  if (status.ok()) status = Compress(from, to, stream, limits);
  if (!status.ok()) unlink(path.c_str());
  return status;
}

}  // namespace strobe::spool
