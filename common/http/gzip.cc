#include "common/http/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <new>

namespace strobe::http {

GzipStream::GzipStream() : stream_(std::make_unique<z_stream_s>()) {
  constexpr int kFastest = 1;
  constexpr int kGzipFormat = 16 + MAX_WBITS;
  constexpr int kMemoryLevel = 8;  // zlib's default.
  *stream_ = {};
  if (deflateInit2(stream_.get(), kFastest, Z_DEFLATED, kGzipFormat, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
}

GzipStream::~GzipStream() { deflateEnd(stream_.get()); }

void GzipStream::Deflate(std::string_view piece, int flush, std::string& out) {
  stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
  stream_->avail_in = static_cast<uInt>(piece.size());
  constexpr std::size_t kRoundBytes = std::size_t{1} << 20;
  do {
    const std::size_t before = out.size();
    // In rounds, because what is compressed is much smaller than its bound.
    out.resize(before +
               std::min<std::size_t>(deflateBound(stream_.get(), stream_->avail_in), kRoundBytes));
    stream_->next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream_->avail_out = static_cast<uInt>(out.size() - before);
    deflate(stream_.get(), flush);
    out.resize(out.size() - stream_->avail_out);
  } while (stream_->avail_out == 0);
}

void GzipStream::Add(std::string_view piece, std::string& out) { Deflate(piece, Z_NO_FLUSH, out); }

void GzipStream::Finish(std::string& out) { Deflate({}, Z_FINISH, out); }

std::string Gzip(std::string_view text) {
  GzipStream stream;
  std::string out;
  stream.Add(text, out);
  stream.Finish(out);
  return out;
}

}  // namespace strobe::http
