// A small HTTP/1.1 server for GET on a few paths: metrics and health. Every read and
// write has a deadline and connections are bounded, so slow or idle clients cannot hold it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace strobe {

struct Page {
  int status = 200;
  std::string body{};
  std::string content_type = "text/plain; charset=utf-8";
};

// A page in Prometheus' text format.
inline Page MetricsPage(std::string text) {
  return {200, std::move(text), "text/plain; version=0.0.4; charset=utf-8"};
}

class HttpServer {
 public:
  // Called with the query string (without '?'), from several threads at once.
  using Handler = std::function<Page(const std::string& query)>;

  // "host:port"; port 0 picks a free one. Fails when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& listen,
                                                           std::map<std::string, Handler> pages);
  virtual ~HttpServer() = default;  // Ends all connections.
  virtual int port() const = 0;
};

}  // namespace strobe
