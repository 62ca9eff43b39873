// A small HTTP/1.1 server: metrics, health, the viewer's pages and, over TLS, the webhooks. Every
// read and write has a deadline, connections and bodies are bounded, and when there are too many
// connections the one that has been idle longest goes: slow or idle clients cannot hold it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe {

class LiveIdentity;

struct Request {
  std::string path{};    // As sent, without the query.
  std::string query{};   // As sent, without '?'.
  std::string host{};    // Of the Host header.
  std::string method{};  // GET, HEAD or, where bodies are taken, POST.
  std::string content_type{};
  std::string body{};
  std::string source{};    // The other side's address, without its port.
  bool certified = false;  // It has shown a certificate that HttpOptions asks for.
};

struct Page {
  int status = 200;
  std::string body{};
  std::string content_type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers{};
  // Worth compressing for whoever takes it.
  bool compress = false;
};

// A page in Prometheus' text format.
inline Page MetricsPage(std::string text) {
  return {200, std::move(text), "text/plain; version=0.0.4; charset=utf-8"};
}

struct HttpOptions {
  std::string listen{};  // "host:port"; port 0 picks a free one.
  std::size_t most_connections = 64;
  std::size_t most_body_bytes = 0;  // 0 = nobody may POST. Longer ones get 413.
  // Requests that are answered at once. A long answer must not keep health checks waiting.
  int threads = 4;
  // Which answers take long: threads of their own make them, so that they keep nobody else waiting.
  // A request that finds most_slow_waiting others waiting is answered with 503 and Retry-After.
  std::function<bool(const Request&)> is_slow = nullptr;
  int slow_threads = 2;
  std::size_t most_slow_waiting = 16;
  // Whose certificate to serve TLS with; followed when it is renewed. Outlives the server.
  const LiveIdentity* identity = nullptr;
  // PEM bundle of the authorities of which, with TLS, every client must show a certificate; empty =
  // nobody is asked for one. Called for new connections.
  std::function<std::string()> client_authorities = nullptr;
  std::vector<std::string> client_names{};  // Common names that are let in; empty = all.
};

class HttpServer {
 public:
  // Called from several threads at once.
  using Handler = std::function<Page(const Request& request)>;

  // Fails when the address cannot be bound. `otherwise` answers for all paths that `pages` does not
  // name; empty = not found.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpOptions& options,
                                                           std::map<std::string, Handler> pages,
                                                           Handler otherwise = {});
  virtual ~HttpServer() = default;  // Ends all connections.
  virtual int port() const = 0;
  // From now on each answer ends its connection, so that clients look for another server.
  virtual void Drain() = 0;
};

}  // namespace strobe
