#include "collector/trace/kineto/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/status_macros.h"

namespace strobe::kineto {

class Gunzip::Stream {
 public:
  Stream() : input_(64 << 10) {
    constexpr int kWindow = 15, kGzip = 16;
    // Fails only without memory.
    usable_ = inflateInit2(&z_, kWindow + kGzip) == Z_OK;
  }
  ~Stream() {
    if (usable_) inflateEnd(&z_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  z_stream z_{};
  bool usable_ = false;
  std::vector<char> input_;
  bool looked_ = false, compressed_ = false;  // Were the first bytes looked at?
  bool input_ended_ = false, finished_ = false, damaged_ = false;
  bool in_member_ = false;  // A gzip file may be several ones, one after the other.
};

Gunzip::Gunzip(const Source& source) : source_(source), stream_(std::make_unique<Stream>()) {}
Gunzip::~Gunzip() = default;

bool Gunzip::damaged() const { return stream_->damaged_; }

absl::StatusOr<std::size_t> Gunzip::Read(std::span<char> room) {
  Stream& s = *stream_;
  if (!s.looked_) {
    std::size_t size = 0;
    while (size < 2) {
      ASSIGN_OR_RETURN(const std::size_t bytes, source_(std::span(s.input_).subspan(size)));
      if (bytes == 0) break;
      size += bytes;
    }
    s.looked_ = true;
    s.compressed_ = size >= 2 && s.input_[0] == '\x1f' && s.input_[1] == '\x8b';
    s.z_.next_in = reinterpret_cast<Bytef*>(s.input_.data());
    s.z_.avail_in = static_cast<uInt>(size);
    if (s.compressed_ && !s.usable_) return absl::ResourceExhaustedError("no memory for zlib");
  }
  if (s.compressed_) return Inflate(room);
  if (s.z_.avail_in == 0) return source_(room);
  const std::size_t size = std::min<std::size_t>(room.size(), s.z_.avail_in);
  std::memcpy(room.data(), s.z_.next_in, size);
  s.z_.next_in += size;
  s.z_.avail_in -= static_cast<uInt>(size);
  return size;
}

absl::StatusOr<std::size_t> Gunzip::Inflate(std::span<char> room) {
  Stream& s = *stream_;
  s.z_.next_out = reinterpret_cast<Bytef*>(room.data());
  s.z_.avail_out = static_cast<uInt>(room.size());
  while (!s.finished_ && s.z_.avail_out == room.size()) {
    if (s.z_.avail_in == 0 && !s.input_ended_) {
      ASSIGN_OR_RETURN(const std::size_t bytes, source_(std::span(s.input_)));
      s.input_ended_ = bytes == 0;
      s.z_.next_in = reinterpret_cast<Bytef*>(s.input_.data());
      s.z_.avail_in = static_cast<uInt>(bytes);
    }
    if (s.z_.avail_in == 0) {
      s.finished_ = true;
      s.damaged_ = s.damaged_ || s.in_member_;
      break;
    }
    // Tapes and disks are filled with zeros behind the last file, which gzip ignores too.
    if (!s.in_member_ && *s.z_.next_in == 0) {
      ++s.z_.next_in;
      --s.z_.avail_in;
      continue;
    }
    s.in_member_ = true;
    const int result = inflate(&s.z_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      s.in_member_ = false;
      s.finished_ = inflateReset(&s.z_) != Z_OK;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      s.finished_ = s.damaged_ = true;
    }
  }
  return room.size() - s.z_.avail_out;
}

}  // namespace strobe::kineto
