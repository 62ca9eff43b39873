#include "collector/http/http_server.h"

#include <zlib.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "collector/base/strings.h"

namespace strobe {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

constexpr int kMostConnections = 64;
// A long answer must not keep health checks waiting.
constexpr int kThreads = 4;
constexpr std::size_t kMostToCompress = std::size_t{1} << 30;
constexpr std::chrono::seconds kDeadline{10};
constexpr std::chrono::seconds kIdle{90};

struct Shared {
  std::map<std::string, HttpServer::Handler> pages;
  HttpServer::Handler otherwise;
  std::atomic<int> connections{0};
};

std::string Gzip(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 16 + MAX_WBITS;
  if (deflateInit2(&stream, 1, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
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

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<Shared> shared)
      : stream_(std::move(socket)), shared_(std::move(shared)) {
    ++shared_->connections;
  }
  ~Connection() { --shared_->connections; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Read(std::chrono::seconds deadline) {
    parser_.emplace();
    parser_->body_limit(1024);
    stream_.expires_after(deadline);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       if (!error) self->Answer();
                     });
  }

 private:
  void Answer() {
    const http::request<http::string_body> request = parser_->release();
    Page page{405, "only GET is served here\n"};
    if (request.method() == http::verb::get || request.method() == http::verb::head)
      page = PageFor(request);
    response_ = {};
    response_.version(request.version());
    response_.result(static_cast<unsigned>(page.status));
    response_.set(http::field::content_type, page.content_type);
    response_.set(http::field::cache_control, "no-store");
    for (const auto& [name, value] : page.headers) response_.set(name, value);
    response_.keep_alive(request.keep_alive());
    response_.body() = std::move(page.body);
    if (page.compress && response_.body().size() < kMostToCompress &&
        request[http::field::accept_encoding].find("gzip") != beast::string_view::npos) {
      response_.body() = Gzip(response_.body());
      response_.set(http::field::content_encoding, "gzip");
    }
    response_.prepare_payload();
    if (request.method() == http::verb::head) response_.body().clear();
    stream_.expires_after(kDeadline);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        if (error) return;
                        if (self->response_.keep_alive()) return self->Read(kIdle);
                        self->stream_.socket().shutdown(tcp::socket::shutdown_send, error);
                      });
  }

  Page PageFor(const http::request<http::string_body>& asked) const {
    Request request{.path = std::string(asked.target()),
                    .host = std::string(asked[http::field::host])};
    if (const std::size_t query = request.path.find('?'); query != std::string::npos) {
      request.query = request.path.substr(query + 1);
      request.path.resize(query);
    }
    if (const auto page = shared_->pages.find(request.path); page != shared_->pages.end())
      return page->second(request);
    return shared_->otherwise ? shared_->otherwise(request) : Page{404, "no such page\n"};
  }

  beast::tcp_stream stream_;
  const std::shared_ptr<Shared> shared_;
  beast::flat_buffer buffer_{16384};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
};

class BeastServer final : public HttpServer {
 public:
  BeastServer(std::map<std::string, Handler> pages, Handler otherwise) : acceptor_(context_) {
    shared_->pages = std::move(pages);
    shared_->otherwise = std::move(otherwise);
  }
  ~BeastServer() override {
    context_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Listen(const std::string& listen) {
    const std::size_t colon = listen.rfind(':');
    if (colon == std::string::npos)
      return absl::InvalidArgumentError(StrCat("\"", listen, "\" is no host:port"));
    beast::error_code error;
    tcp::resolver resolver(context_);
    const auto found = resolver.resolve(listen.substr(0, colon), listen.substr(colon + 1),
                                        tcp::resolver::passive, error);
    if (error || found.empty())
      return absl::InvalidArgumentError(StrCat("cannot listen on ", listen, ": ", error.message()));
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error)
      return absl::UnavailableError(StrCat("cannot listen on ", listen, ": ", error.message()));
    Accept();
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { context_.run(); });
    return absl::OkStatus();
  }
  int port() const override { return acceptor_.local_endpoint().port(); }

 private:
  void Accept() {
    acceptor_.async_accept(
        asio::make_strand(context_), [this](beast::error_code error, tcp::socket socket) {
          if (error == asio::error::operation_aborted) return;
          // Beyond the bound a client is turned away at once instead of waiting for nothing.
          if (!error && shared_->connections < kMostConnections)
            std::make_shared<Connection>(std::move(socket), shared_)->Read(kDeadline);
          Accept();
        });
  }

  asio::io_context context_;
  tcp::acceptor acceptor_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& listen,
                                                              std::map<std::string, Handler> pages,
                                                              Handler otherwise) {
  auto server = std::make_unique<BeastServer>(std::move(pages), std::move(otherwise));
  if (const absl::Status status = server->Listen(listen); !status.ok()) return status;
  return server;
}

}  // namespace strobe
