// One client's connection to the HTTP server, plain or over TLS.
#pragma once
#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http.hpp>
#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/fair/byte_shares.h"
#include "common/http/server.h"
#include "common/http/slow_work.h"

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

// A connection that waits for its client: for the handshake, for a request, or for the next one.
// The server closes the one that has waited longest when it has too many connections.
class WaitingConnection {
 public:
  virtual ~WaitingConnection() = default;
  // Both may be called from any thread.
  virtual void Close() = 0;
  // Closes the connection if it waits for its next request, and nothing of that has arrived.
  virtual void CloseIfIdle() = 0;
};

// What a server's connections have in common. It outlives the last of them.
struct ServerState {
  ServerOptions options;
  std::map<std::string, Server::Handler> pages;
  Server::Handler otherwise;
  std::atomic<bool> draining{false};
  std::atomic<std::int64_t> body_bytes{0};  // Reserved by all bodies that are being read.
  // For requests that wait or are heavy; for heavy and for short ones if the options say so.
  std::optional<SlowWork> slow, heavy, brief;
  // Bounds the memory of the answers that are being sent.
  std::shared_ptr<fair::ByteShares> answers;

  // Null if the thread that has read the request answers it.
  SlowWork* ThreadsFor(Load load) {
    std::optional<SlowWork>& threads =
        load == Load::kShort ? brief : (load == Load::kHeavy && heavy ? heavy : slow);
    return threads ? &*threads : nullptr;
  }

  void CountRefusal(HttpRefusal refusal) const {
    if (options.on_refusal) options.on_refusal(refusal);
  }

  Mutex mutex;
  std::size_t connections ABSL_GUARDED_BY(mutex) = 0;
  // The longest waiting one is first.
  std::list<std::weak_ptr<WaitingConnection>> waiting ABSL_GUARDED_BY(mutex);
};

struct AcceptedSocket {
  boost::asio::ip::tcp::socket socket;
  std::string source{};    // The client's address, without its port.
  bool certified = false;  // The TLS handshake demands a client certificate.
};

// Serve the connection on the socket's executor, which runs one handler at a time, until the client
// or a deadline ends it. The caller has counted it in `state->connections`; its end uncounts it.
void ServePlain(AcceptedSocket accepted, std::shared_ptr<ServerState> state);
// The connection uses `tls` until its end; only new connections use a renewed certificate.
void ServeTls(AcceptedSocket accepted, std::shared_ptr<ServerState> state,
              std::shared_ptr<boost::asio::ssl::context> tls);

}  // namespace strobe::http
