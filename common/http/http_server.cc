#include "common/http/http_server.h"

#include <zlib.h>

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cstdlib>
#include <list>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/guard.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"
#include "common/http/slow_work.h"
#include "common/tls/live_identity.h"
#include "common/tls/peer.h"

namespace strobe {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

constexpr std::size_t kMostToCompress = std::size_t{1} << 30;
constexpr std::chrono::seconds kDeadline{10};
constexpr std::chrono::seconds kIdle{90};
constexpr std::chrono::seconds kLinger{2};
constexpr std::size_t kMostLingered = std::size_t{16} << 20;
constexpr std::uint32_t kMostHeaderBytes = 64 << 10;
constexpr std::size_t kSmallBody = 1024;  // Of a GET, which has none.
// Of all connections together; whoever comes then is told to come again.
constexpr std::int64_t kMostBodyBytesAtOnce = std::int64_t{256} << 20;

// A connection that waits for its client: to finish the handshake, to ask, or to go on asking.
class Idler {
 public:
  virtual ~Idler() = default;
  virtual void Close() = 0;  // From any thread.
};

struct Shared {
  HttpOptions options;
  std::map<std::string, HttpServer::Handler> pages;
  HttpServer::Handler otherwise;
  std::atomic<bool> draining{false};
  std::atomic<std::int64_t> body_bytes{0};
  std::optional<SlowWork> slow;

  Mutex mutex;
  std::size_t connections ABSL_GUARDED_BY(mutex) = 0;
  std::list<std::weak_ptr<Idler>> idlers ABSL_GUARDED_BY(mutex);  // Longest idle first.
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

// A share of the bytes that all bodies may take together.
class BodyShare {
 public:
  explicit BodyShare(Shared& shared) : shared_(shared) {}
  ~BodyShare() { Release(); }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  bool Take(std::int64_t bytes) {
    Release();
    bytes_ = bytes;
    return (shared_.body_bytes += bytes) <= kMostBodyBytesAtOnce;
  }
  void Release() { shared_.body_bytes -= std::exchange(bytes_, 0); }

 private:
  Shared& shared_;
  std::int64_t bytes_ = 0;
};

using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

template <typename Stream>
class Connection final : public Idler, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  // With a TLS context for a TlsStream.
  template <typename... Tls>
  Connection(std::string source, bool certified, tcp::socket socket, std::shared_ptr<Shared> shared,
             const std::shared_ptr<Tls>&... tls)
      : source_(std::move(source)),
        certified_(certified),
        tls_(tls...),
        stream_(std::move(socket), *tls...),
        shared_(std::move(shared)),
        share_(*shared_) {}
  ~Connection() override {
    EndIdling();
    MutexLock lock(&shared_->mutex);
    --shared_->connections;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Start() {
    if constexpr (std::is_same_v<Stream, PlainStream>) {
      Read(kDeadline);
    } else {
      Idle();
      Socket().expires_after(kDeadline);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](beast::error_code error) {
                                self->EndIdling();
                                if (!error) self->Read(kDeadline);
                              });
    }
  }

  void Close() override {
    asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
      beast::error_code ignored;
      self->Socket().socket().close(ignored);
    });
  }

 private:
  beast::tcp_stream& Socket() { return beast::get_lowest_layer(stream_); }

  void Idle() {
    MutexLock lock(&shared_->mutex);
    place_ = shared_->idlers.insert(shared_->idlers.end(), this->weak_from_this());
  }
  void EndIdling() {
    MutexLock lock(&shared_->mutex);
    if (place_) shared_->idlers.erase(*std::exchange(place_, std::nullopt));
  }

  void Read(std::chrono::seconds deadline) {
    parser_.emplace();
    parser_->header_limit(kMostHeaderBytes);
    parser_->body_limit(std::max(shared_->options.most_body_bytes, kSmallBody));
    share_.Release();
    Idle();
    Socket().expires_after(deadline);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](beast::error_code error, std::size_t) {
          self->EndIdling();
          if (error == http::error::body_limit)
            return self->Refuse({413, "the body is too long\n"});
          if (!error) self->ReadBody();
        });
  }

  void ReadBody() {
    if (parser_->is_done()) return Answer();
    const auto length = parser_->content_length();
    const std::size_t most = std::max(shared_->options.most_body_bytes, kSmallBody);
    if (!share_.Take(static_cast<std::int64_t>(length ? *length : most)))
      return Refuse({503, "too many requests at once\n", "text/plain", {{"Retry-After", "1"}}});
    Socket().expires_after(kDeadline);
    http::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](beast::error_code error, std::size_t) {
                       if (error == http::error::body_limit)
                         return self->Refuse({413, "the body is too long\n"});
                       if (!error) self->Answer();
                     });
  }

  // For a request that has not been read to its end.
  void Refuse(Page page) {
    response_ = {};
    response_.keep_alive(false);
    refused_ = true;
    Write(std::move(page), /*head=*/false, /*gzip=*/false);
  }

  void Answer() {
    http::request<http::string_body> asked = parser_->release();
    const bool head = asked.method() == http::verb::head;
    const bool gzip = asked[http::field::accept_encoding].find("gzip") != beast::string_view::npos;
    response_ = {};
    response_.version(asked.version());
    response_.keep_alive(asked.keep_alive() && !shared_->draining);
    if (!head && asked.method() != http::verb::get &&
        (asked.method() != http::verb::post || shared_->options.most_body_bytes == 0))
      return Write({405, "only GET is served here\n"}, head, gzip);
    Request request = ToRequest(asked);
    const auto& is_slow = shared_->options.is_slow;
    if (!is_slow || !is_slow(request)) return Write(PageFor(request), head, gzip);
    const bool taken = shared_->slow->Add([self = this->shared_from_this(), request, head, gzip] {
      Page page = Compressed(self->PageFor(request), gzip);
      asio::post(self->stream_.get_executor(), [self, head, page = std::move(page)]() mutable {
        self->Write(std::move(page), head, /*gzip=*/false);
      });
    });
    if (!taken)
      Write({503, "too many such requests at once\n", "text/plain", {{"Retry-After", "5"}}}, head,
            gzip);
  }

  static Page Compressed(Page page, bool gzip) {
    if (!page.compress || !gzip || page.body.size() >= kMostToCompress) return page;
    page.body = Gzip(page.body);
    page.headers.emplace_back("Content-Encoding", "gzip");
    page.compress = false;
    return page;
  }

  void Write(Page page, bool head, bool gzip) {
    page = Compressed(std::move(page), gzip);
    response_.result(static_cast<unsigned>(page.status));
    response_.set(http::field::content_type, page.content_type);
    response_.set(http::field::cache_control, "no-store");
    for (const auto& [name, value] : page.headers) response_.set(name, value);
    response_.body() = std::move(page.body);
    response_.prepare_payload();
    if (head) response_.body().clear();
    Socket().expires_after(kDeadline);
    http::async_write(stream_, response_,
                      [self = this->shared_from_this()](beast::error_code error, std::size_t) {
                        if (error) return;
                        if (self->response_.keep_alive()) return self->Read(kIdle);
                        if (self->refused_) return self->Linger();
                        self->End();
                      });
  }

  // Takes what the client is still sending: closing on unread bytes would reset the connection, and
  // the client would never read why.
  void Linger() {
    if (lingered_ == 0) {
      Socket().expires_after(kLinger);
      beast::error_code ignored;
      if constexpr (std::is_same_v<Stream, PlainStream>)
        Socket().socket().shutdown(tcp::socket::shutdown_send, ignored);
    }
    stream_.async_read_some(
        asio::buffer(discarded_),
        [self = this->shared_from_this()](beast::error_code error, std::size_t bytes) {
          self->lingered_ += bytes;
          if (error || self->lingered_ > kMostLingered) return self->End();
          self->Linger();
        });
  }

  void End() {
    if constexpr (std::is_same_v<Stream, PlainStream>) {
      beast::error_code ignored;
      Socket().socket().shutdown(tcp::socket::shutdown_send, ignored);
    } else {
      Socket().expires_after(kDeadline);
      stream_.async_shutdown([self = this->shared_from_this()](beast::error_code) {});
    }
  }

  Request ToRequest(http::request<http::string_body>& asked) const {
    Request request{.path = std::string(asked.target()),
                    .host = std::string(asked[http::field::host]),
                    .method = std::string(asked.method_string()),
                    .content_type = std::string(asked[http::field::content_type]),
                    .body = std::move(asked.body()),
                    .source = source_,
                    .certified = certified_};
    if (const std::size_t query = request.path.find('?'); query != std::string::npos) {
      request.query = request.path.substr(query + 1);
      request.path.resize(query);
    }
    return request;
  }

  Page PageFor(const Request& request) const {
    Page page{500, "something went wrong here\n"};
    (void)RunGuarded("http", [&] {
      if (const auto found = shared_->pages.find(request.path); found != shared_->pages.end())
        page = found->second(request);
      else
        page = shared_->otherwise ? shared_->otherwise(request) : Page{404, "no such page\n"};
    });
    return page;
  }

  const std::string source_;
  // What comes over a stream whose handshake asked for a certificate comes from who has one.
  const bool certified_;
  // Kept while the stream uses it; a renewed certificate is for new connections.
  const std::shared_ptr<asio::ssl::context> tls_;
  Stream stream_;
  const std::shared_ptr<Shared> shared_;
  BodyShare share_;
  std::optional<std::list<std::weak_ptr<Idler>>::iterator> place_;
  beast::flat_buffer buffer_{kMostHeaderBytes + 16384};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  bool refused_ = false;
  std::size_t lingered_ = 0;
  std::array<char, 4096> discarded_;
};

// The TLS context of the identity as it is now.
class TlsContexts {
 public:
  explicit TlsContexts(const HttpOptions& options)
      : identity_(options.identity),
        client_authorities_(options.client_authorities),
        client_names_(options.client_names) {}
  bool asks_for_certificates() const { return client_authorities_ != nullptr; }

  // Null when the certificate cannot be used.
  std::shared_ptr<asio::ssl::context> Current() {
    const std::shared_ptr<const Identity> identity = identity_->Get();
    const std::string authorities = client_authorities_ ? client_authorities_() : "";
    if (identity != made_of_ || authorities != made_for_) {
      auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
      SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
      // Idle connections should cost little.
      SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
      const auto bytes = [](const std::string& text) { return asio::buffer(text); };
      beast::error_code error;
      context->use_certificate_chain(bytes(identity->own.certificate), error);
      if (!error)
        context->use_private_key(bytes(identity->own.key), asio::ssl::context::pem, error);
      if (!error && client_authorities_) AskForCertificates(*context, authorities, error);
      if (error) return current_;
      made_of_ = identity;
      made_for_ = authorities;
      current_ = std::move(context);
    }
    return current_;
  }

 private:
  void AskForCertificates(asio::ssl::context& context, const std::string& authorities,
                          beast::error_code& error) const {
    context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, error);
    if (!error) context.add_certificate_authority(asio::buffer(authorities), error);
    if (error || client_names_.empty()) return;
    context.set_verify_callback(
        [names = client_names_](bool valid, asio::ssl::verify_context& certificate) {
          return valid && CarriesCommonName(certificate.native_handle(), names);
        },
        error);
  }

  const LiveIdentity* const identity_;
  const std::function<std::string()> client_authorities_;
  const std::vector<std::string> client_names_;
  std::shared_ptr<const Identity> made_of_;
  std::string made_for_;
  std::shared_ptr<asio::ssl::context> current_;
};

class BeastServer final : public HttpServer {
 public:
  BeastServer(const HttpOptions& options, std::map<std::string, Handler> pages, Handler otherwise)
      : acceptor_(context_), tls_(options) {
    shared_->options = options;
    shared_->pages = std::move(pages);
    shared_->otherwise = std::move(otherwise);
    if (options.is_slow) shared_->slow.emplace(options.slow_threads, options.most_slow_waiting);
  }
  ~BeastServer() override {
    if (shared_->slow) shared_->slow->Stop();
    context_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Listen() {
    const std::string& listen = shared_->options.listen;
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
    for (int i = 0; i < shared_->options.threads; ++i)
      threads_.emplace_back([this] { RunThread("http", [this] { context_.run(); }); });
    return absl::OkStatus();
  }
  int port() const override { return acceptor_.local_endpoint().port(); }
  void Drain() override { shared_->draining = true; }

 private:
  void Accept() {
    acceptor_.async_accept(asio::make_strand(context_),
                           [this](beast::error_code error, tcp::socket socket) {
                             if (error == asio::error::operation_aborted) return;
                             if (!error) Take(std::move(socket));
                             Accept();
                           });
  }

  void Take(tcp::socket socket) {
    const bool tls = shared_->options.identity != nullptr;
    const std::shared_ptr<asio::ssl::context> context = tls ? tls_.Current() : nullptr;
    if (tls && context == nullptr) return;
    std::shared_ptr<Idler> evicted;
    {
      MutexLock lock(&shared_->mutex);
      if (shared_->connections >= shared_->options.most_connections) {
        // All of them at work: whoever comes now is turned away.
        if (shared_->idlers.empty()) return;
        evicted = shared_->idlers.front().lock();
        // To the end, so that the next one to come does not hit the same.
        shared_->idlers.splice(shared_->idlers.end(), shared_->idlers, shared_->idlers.begin());
      }
      ++shared_->connections;
    }
    if (evicted != nullptr) evicted->Close();
    beast::error_code ignored;
    const tcp::endpoint peer = socket.remote_endpoint(ignored);
    std::string source = peer.address().to_string();
    if (tls)
      std::make_shared<Connection<TlsStream>>(std::move(source), tls_.asks_for_certificates(),
                                              std::move(socket), shared_, context)
          ->Start();
    else
      std::make_shared<Connection<PlainStream>>(std::move(source), false, std::move(socket),
                                                shared_)
          ->Start();
  }

  asio::io_context context_;
  tcp::acceptor acceptor_;
  TlsContexts tls_;  // Of whoever accepts; one at a time.
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpOptions& options,
                                                              std::map<std::string, Handler> pages,
                                                              Handler otherwise) {
  auto server = std::make_unique<BeastServer>(options, std::move(pages), std::move(otherwise));
  if (const absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace strobe
