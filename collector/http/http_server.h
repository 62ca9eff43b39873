// A small HTTP/1.1 server for GET: metrics, health and the viewer's pages. Every read and write has
// a deadline and connections are bounded, so slow or idle clients cannot hold it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe {

struct Request {
  std::string path{};   // As sent, without the query.
  std::string query{};  // As sent, without '?'.
  std::string host{};   // Of the Host header.
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

class HttpServer {
 public:
  // Called from several threads at once.
  using Handler = std::function<Page(const Request& request)>;

  // "host:port"; port 0 picks a free one. Fails when the address cannot be bound. `otherwise`
  // answers for all paths that `pages` does not name; empty = not found.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& listen,
                                                           std::map<std::string, Handler> pages,
                                                           Handler otherwise = {});
  virtual ~HttpServer() = default;  // Ends all connections.
  virtual int port() const = 0;
};

}  // namespace strobe
