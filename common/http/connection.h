// One client's connection to the HTTP server, plain or over TLS.
#pragma once
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/byte_shares.h"
#include "common/base/mutex.h"
#include "common/http/http_server.h"
#include "common/http/slow_work.h"

namespace strobe::http {

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
  HttpOptions options;
  std::map<std::string, HttpServer::Handler> pages;
  HttpServer::Handler otherwise;
  std::atomic<bool> draining{false};
  std::atomic<std::int64_t> body_bytes{0};  // Reserved by all bodies that are being read.
  // For requests that wait or are heavy; for heavy and for short ones if the options say so.
  std::optional<SlowWork> slow, heavy, brief;
  // Bounds the memory of the answers that are being sent.
  std::shared_ptr<ByteShares> answers;

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
