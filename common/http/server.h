// A small HTTP/1.1 server for metrics, health checks, the viewer's pages and, over TLS, the
// webhooks and the receiver of alerts. Slow or idle clients cannot block it: every read and write
// has a deadline, connections and bodies are bounded, and when there are too many connections, the
// one that has been idle longest is closed.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fair/byte_shares.h"
#include "common/http/slow_work.h"

namespace strobe {
class LiveIdentity;
}

namespace strobe::http {

// Whether the client that waits for an answer has closed its connection. Cheap enough to be asked
// some thousand times a second, by any thread while the request is being answered.
using IsGone = std::function<bool()>;

struct Request {
  std::string path{};    // As sent, without the query.
  std::string query{};   // As sent, without '?'; see Query.
  std::string host{};    // The Host header; empty when there is none.
  std::string method{};  // GET, HEAD or, where bodies are accepted, POST.
  std::string content_type{};
  std::string body{};
  std::string range{}, if_range{};  // The headers of these names; empty when there are none.
  std::string source{};             // The client's IP address, without its port.
  bool certified = false;  // The client has shown a certificate that ServerOptions demands.
  // The headers that ServerOptions names, in the order in which they were sent, repeated ones
  // included. Names are spelled as in the options.
  std::vector<std::pair<std::string, std::string>> headers{};
  IsGone is_gone{};  // Null if the request comes from no connection, as in tests.
  bool takes_gzip = false;
  std::string asker{};  // Whose share it takes, as ServerOptions::work_of has said.
};

// A body that is read piece by piece while it is sent.
class BodySource {
 public:
  virtual ~BodySource() = default;
  virtual std::uint64_t size() const = 0;
  // Reads bytes from `offset` on, at least one; returns their number. May block. After an error, or
  // if there are none, the connection is closed, so that the client notices that bytes are missing.
  virtual absl::StatusOr<std::size_t> Read(std::uint64_t offset, std::span<char> into) = 0;
  // Whether any thread may read it.
  virtual bool never_blocks() const { return false; }
};

struct Page {
  int status = 200;
  std::string body{};
  std::string content_type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers{};
  bool compress = false;  // Compress the body for clients that accept gzip.
  // If set, the body comes from here instead of `body`. The threads of slow requests read it.
  std::shared_ptr<BodySource> source{};
};

// A page in the Prometheus text exposition format.
inline Page MetricsPage(std::string text) {
  return {200, std::move(text), "text/plain; version=0.0.4; charset=utf-8"};
}

// Why the server ended a connection or a request without asking a handler.
enum class HttpRefusal {
  kHandshake,  // TLS was not agreed upon, for example because the client's certificate is unknown.
  kSlow,       // The client did not send its request in time.
  kTooLong,    // Answered with 413.
  kBusy,       // Answered with 503: too many bodies, requests or answers at once.
  kCrowded,    // Closed, because there were too many connections.
};

struct ServerOptions {
  std::string listen{};  // "host:port"; port 0 picks a free one. [::] = both IP families.
  std::size_t max_connections = 64;
  std::size_t max_body_bytes = 0;  // A longer body gets 413; 0 = POST is refused with 405.
  // The limit for all connections together. A request whose body would exceed it gets 503 with
  // Retry-After.
  std::int64_t max_body_bytes_at_once = std::int64_t{256} << 20;
  int threads = 4;  // How many requests can be answered at the same time.
  // Tells what a request costs, and who pays. The threads of `slow` answer those that are not
  // short, so that health checks never wait for them. Requests that may not even wait get 503 with
  // Retry-After. A GET whose client has gone by its turn is dropped. Must not block. Null = all are
  // short.
  std::function<Work(const Request&)> work_of = nullptr;
  WorkLimits slow{};
  // If set, the threads of heavy requests, which then keep nobody waiting who needs little.
  std::optional<WorkLimits> heavy{};
  // If set, askers take turns with short requests too, on threads of their own.
  std::optional<WorkLimits> brief{};
  // The memory that answers may take while they are sent. An answer beyond it is dropped, and its
  // client gets 503 with Retry-After.
  fair::ByteShares::Limits answers{.all = std::uint64_t{1} << 30, .each = std::uint64_t{1} << 30};
  // The certificate for TLS; null = plain HTTP. New connections use a renewed one. Outlives the
  // server.
  const LiveIdentity* identity = nullptr;
  // Returns a PEM bundle of authorities. With TLS, every client must show a certificate that one of
  // them has signed; empty function = clients need none. Called for each new connection.
  std::function<std::string()> client_authorities = nullptr;
  std::vector<std::string> client_names{};  // Common names that may connect; empty = all.
  std::vector<std::string> headers{};       // Names of more headers that the handlers read.
  // Judges a request by its head, which has no body yet. If it returns a page, the client gets that
  // page, the body is not read, and the connection is closed. Must not block.
  std::function<std::optional<Page>(const Request&)> refuse_head = nullptr;
  // Told of each refusal that no handler sees. Called from several threads; must not block.
  std::function<void(HttpRefusal)> on_refusal = nullptr;
};

class Server {
 public:
  // Called from several threads at once. An exception is logged and answered with 500.
  using Handler = std::function<Page(const Request& request)>;

  // Listens and starts to answer. `pages` are the handlers by path; `otherwise` answers all other
  // paths, and without it they get 404. InvalidArgument when options.listen is no address,
  // Unavailable when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       std::map<std::string, Handler> pages,
                                                       Handler otherwise = {});
  virtual ~Server() = default;   // Ends all connections.
  virtual int port() const = 0;  // The port that it listens on.
  // Closes idle connections. From now on each answer closes its connection too, so that clients
  // connect to another server. A client that keeps a connection to a pod which is gone would wait
  // for an answer until its own deadline.
  virtual void Drain() = 0;
};

}  // namespace strobe::http
