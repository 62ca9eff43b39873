#include "common/http/gzip.h"

#include <zlib.h>

#include <cstdlib>

namespace strobe::http {

std::string Gzip(const std::string& text) {
  z_stream stream{};
  constexpr int kFastest = 1;
  constexpr int kGzipFormat = 16 + MAX_WBITS;
  constexpr int kMemoryLevel = 8;  // zlib's default.
  if (deflateInit2(&stream, kFastest, Z_DEFLATED, kGzipFormat, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    std::abort();
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace strobe::http
