// Compresses an answer's body.
#pragma once
#include <memory>
#include <string>
#include <string_view>

struct z_stream_s;

namespace strobe::http {

// Bodies beyond this are not compressed: zlib counts their bytes in 32 bits.
inline constexpr std::size_t kMaxGzipBytes = std::size_t{1} << 30;

// One gzip member, made piece by piece, at zlib's fastest level, because the client waits for it.
// Throws std::bad_alloc if memory is short.
class GzipStream {
 public:
  GzipStream();
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  // Both append what is compressed so far. A piece has at most kMaxGzipBytes bytes.
  void Add(std::string_view piece, std::string& out);
  void Finish(std::string& out);

 private:
  void Deflate(std::string_view piece, int flush, std::string& out);
  const std::unique_ptr<z_stream_s> stream_;
};

// The text as one gzip member. It has at most kMaxGzipBytes bytes.
std::string Gzip(std::string_view text);

}  // namespace strobe::http
