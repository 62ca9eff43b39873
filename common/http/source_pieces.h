// Sends a body piece by piece, so that each piece has a deadline of its own. Internal to the
// server.
#pragma once
#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/http/http_server.h"

namespace strobe::http {

// How many bytes of a BodySource each connection holds in memory while it sends them.
inline constexpr std::size_t kPieceBytes = std::size_t{512} << 10;

// A body that is in memory.
class TextBody final : public BodySource {
 public:
  explicit TextBody(std::string text) : text_(std::move(text)) {}
  std::uint64_t size() const override { return text_.size(); }
  bool never_blocks() const override { return true; }
  absl::StatusOr<std::size_t> Read(std::uint64_t offset, std::span<char> into) override {
    const std::size_t bytes = std::min<std::size_t>(into.size(), text_.size() - offset);
    std::memcpy(into.data(), text_.data() + offset, bytes);
    return bytes;
  }

 private:
  const std::string text_;
};

// A body that is read and sent in pieces.
struct SourcePieces {
  SourcePieces(std::shared_ptr<BodySource> source_, unsigned version, bool keep_alive)
      : source(std::move(source_)) {
    response.version(version);
    response.keep_alive(keep_alive);
    response.body().data = nullptr;
    response.body().more = true;
  }
  SourcePieces(const SourcePieces&) = delete;
  SourcePieces& operator=(const SourcePieces&) = delete;

  absl::StatusOr<std::size_t> Read() {
    piece.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, source->size() - sent)));
    return source->Read(sent, piece);
  }
  // Gives the bytes that were read to the serializer.
  void Offer(std::size_t bytes) {
    sent += bytes;
    response.body().data = piece.data();
    response.body().size = bytes;
    response.body().more = sent < source->size();
  }

  const std::shared_ptr<BodySource> source;
  boost::beast::http::response<boost::beast::http::buffer_body> response;
  boost::beast::http::response_serializer<boost::beast::http::buffer_body> serializer{response};
  std::vector<char> piece;
  std::uint64_t sent = 0;
  std::optional<boost::asio::steady_timer> timer;
};

}  // namespace strobe::http
