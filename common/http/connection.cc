#include "common/http/connection.h"

#include <poll.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/guard.h"
#include "common/http/gzip.h"

namespace strobe::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

constexpr std::chrono::seconds kDeadline{10};  // For the first request, a body, or a head.
// A client that reads a long answer more slowly is cut off: it could hold the connection for ever.
constexpr std::size_t kMinBytesPerSecond = 50'000;
// How long a connection may stay idle between two requests.
constexpr std::chrono::seconds kIdle{90};
// How long, and for how many bytes, a refused client may go on sending.
constexpr std::chrono::seconds kLinger{2};
constexpr std::size_t kMaxLingeredBytes = std::size_t{16} << 20;
constexpr std::uint32_t kMaxHeaderBytes = 64 << 10;
// Where nobody may POST, the parser still accepts this much, so that the client reads 405 instead
// of 413.
constexpr std::size_t kMinBodyLimit = 1024;
constexpr std::chrono::milliseconds kPieceRetry{50};
// Smaller answers take no share of the memory for answers.
constexpr std::size_t kSmallAnswer = std::size_t{64} << 10;

// The answer when a handler has thrown an exception.
const Page kFailed{500, "something went wrong here\n"};

// How long bytes of an answer may take to be sent.
std::chrono::seconds SendDeadline(std::size_t bytes) {
  return kDeadline + std::chrono::seconds(bytes / kMinBytesPerSecond);
}

// A reservation of the memory that the bodies of all connections may take together.
class BodyReservation {
 public:
  explicit BodyReservation(ServerState& state) : state_(state) {}
  ~BodyReservation() { Release(); }
  BodyReservation(const BodyReservation&) = delete;
  BodyReservation& operator=(const BodyReservation&) = delete;

  // False when the bodies would take too much together.
  bool Take(std::int64_t bytes) {
    Release();
    bytes_ = bytes;
    return (state_.body_bytes += bytes) <= state_.options.max_body_bytes_at_once;
  }
  void Release() { state_.body_bytes -= std::exchange(bytes_, 0); }

 private:
  ServerState& state_;
  std::int64_t bytes_ = 0;
};

// Whether the other side has closed the connection, or its half of it. Reading would not tell:
// bytes may lie before the end, such as TLS's own farewell.
bool IsClosedByPeer(int fd) {
  pollfd polled{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&polled, 1, 0) > 0;
}

// The entry of a connection in the list of those that wait for their clients.
class WaitingEntry {
 public:
  explicit WaitingEntry(ServerState& state) : state_(state) {}

  void Enter(std::weak_ptr<WaitingConnection> connection) {
    MutexLock lock(&state_.mutex);
    position_ = state_.waiting.insert(state_.waiting.end(), std::move(connection));
  }
  void Leave() {
    MutexLock lock(&state_.mutex);
    if (position_) state_.waiting.erase(*std::exchange(position_, std::nullopt));
  }

 private:
  ServerState& state_;
  std::optional<std::list<std::weak_ptr<WaitingConnection>>::iterator> position_;
};

// Who is at the other end of a connection; see Request.
struct Client {
  std::string source{};
  bool certified = false;
};

// The request without its body. `headers`: see ServerOptions.
Request ToRequest(const http::request<http::string_body>& asked, const Client& client,
                  const std::vector<std::string>& headers) {
  Request request{.path = std::string(asked.target()),
                  .host = std::string(asked[http::field::host]),
                  .method = std::string(asked.method_string()),
                  .content_type = std::string(asked[http::field::content_type]),
                  .range = std::string(asked[http::field::range]),
                  .if_range = std::string(asked[http::field::if_range]),
                  .source = client.source,
                  .certified = client.certified};
  if (const std::size_t query = request.path.find('?'); query != std::string::npos) {
    request.query = request.path.substr(query + 1);
    request.path.resize(query);
  }
  for (const std::string& name : headers) {
    const auto [first, last] = asked.equal_range(name);
    for (auto field = first; field != last; ++field)
      request.headers.emplace_back(name, std::string(field->value()));
  }
  return request;
}

// The page that refuses a request whose body has not been read.
std::optional<Page> RefusalOfHead(const http::request<http::string_body>& head,
                                  const Client& client, const ServerOptions& options) {
  if (!options.refuse_head) return std::nullopt;
  std::optional<Page> page = kFailed;
  (void)RunGuarded("http",
                   [&] { page = options.refuse_head(ToRequest(head, client, options.headers)); });
  return page;
}

Page Compressed(Page page) {
  if (!page.compress || page.source != nullptr || page.body.size() >= kMaxGzipBytes) return page;
  page.body = Gzip(page.body);
  page.headers.emplace_back("Content-Encoding", "gzip");
  return page;
}

// What the server's handlers answer.
Page PageFor(const ServerState& state, const Request& request) {
  Page page = kFailed;
  (void)RunGuarded("http", [&] {
    Page made;
    if (const auto found = state.pages.find(request.path); found != state.pages.end())
      made = found->second(request);
    else
      made = state.otherwise ? state.otherwise(request) : Page{404, "no such page\n"};
    page = request.takes_gzip ? Compressed(std::move(made)) : std::move(made);
  });
  return page;
}

template <typename Response>
void SetHead(const Page& page, Response& response) {
  response.result(static_cast<unsigned>(page.status));
  response.set(http::field::content_type, page.content_type);
  response.set(http::field::cache_control, "no-store");
  for (const auto& [name, value] : page.headers) response.set(name, value);
}

using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

template <typename Stream>
class Connection final : public WaitingConnection,
                         public std::enable_shared_from_this<Connection<Stream>> {
 public:
  // A TlsStream takes a TLS context as well.
  template <typename... Tls>
  Connection(AcceptedSocket accepted, std::shared_ptr<ServerState> state,
             const std::shared_ptr<Tls>&... tls)
      : client_{std::move(accepted.source), accepted.certified},
        tls_(tls...),
        stream_(std::move(accepted.socket), *tls...),
        state_(std::move(state)),
        waiting_(*state_),
        reservation_(*state_),
        answer_(fair::ByteShares::Begin(state_->answers, "")) {}
  ~Connection() override {
    waiting_.Leave();
    MutexLock lock(&state_->mutex);
    --state_->connections;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Start() {
    if constexpr (std::is_same_v<Stream, PlainStream>) {
      Read(kDeadline);
    } else {
      waiting_.Enter(this->weak_from_this());
      Socket().expires_after(kDeadline);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](beast::error_code error) {
                                self->waiting_.Leave();
                                if (!error) return self->Read(kDeadline);
                                self->state_->CountRefusal(HttpRefusal::kHandshake);
                              });
    }
  }

  void Close() override {
    asio::post(stream_.get_executor(), [self = this->shared_from_this()] { self->CloseSocket(); });
  }
  void CloseIfIdle() override {
    asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
      if (self->idle_ && self->buffer_.size() == 0) self->CloseSocket();
    });
  }

 private:
  beast::tcp_stream& Socket() { return beast::get_lowest_layer(stream_); }
  void CloseSocket() {
    beast::error_code ignored;
    Socket().socket().close(ignored);
  }

  void Read(std::chrono::seconds deadline) {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(std::max(state_->options.max_body_bytes, kMinBodyLimit));
    reservation_.Release();
    waiting_.Enter(this->weak_from_this());
    Socket().expires_after(deadline);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](beast::error_code error, std::size_t) {
          self->waiting_.Leave();
          // A kept connection that times out unused is closed too, but its client is not slow.
          const bool was_idle = std::exchange(self->idle_, false);
          if (error && !(was_idle && error == beast::error::timeout)) return self->EndRead(error);
          if (!error) self->ReadBody();
        });
  }

  // Handles a request that could not be read to its end.
  void EndRead(beast::error_code error) {
    if (error == beast::error::timeout) return state_->CountRefusal(HttpRefusal::kSlow);
    if (error != http::error::body_limit) return;
    state_->CountRefusal(HttpRefusal::kTooLong);
    Refuse({413, "the body is too long\n"});
  }

  void ReadBody() {
    if (auto refusal = RefusalOfHead(parser_->get(), client_, state_->options))
      return Refuse(*std::move(refusal));
    if (parser_->is_done()) return Answer();
    const auto length = parser_->content_length();
    const std::size_t most = std::max(state_->options.max_body_bytes, kMinBodyLimit);
    if (!reservation_.Take(static_cast<std::int64_t>(length ? *length : most))) {
      state_->CountRefusal(HttpRefusal::kBusy);
      return Refuse({503, "too many requests at once\n", "text/plain", {{"Retry-After", "1"}}});
    }
    Socket().expires_after(kDeadline);
    http::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](beast::error_code error, std::size_t) {
                       if (error) return self->EndRead(error);
                       self->Answer();
                     });
  }

  // Answers a request that has not been read to its end.
  void Refuse(Page page) {
    response_ = {};
    response_.keep_alive(false);
    refused_ = true;
    Write(std::move(page), /*head=*/false);
  }

  void Answer() {
    http::request<http::string_body> asked = parser_->release();
    const bool head = asked.method() == http::verb::head;
    response_ = {};
    response_.version(asked.version());
    response_.keep_alive(asked.keep_alive() && !state_->draining);
    if (!head && asked.method() != http::verb::get &&
        (asked.method() != http::verb::post || state_->options.max_body_bytes == 0))
      return Write({405, "only GET is supported here\n"}, head);
    Request request = ToRequest(asked, client_, state_->options.headers);
    request.body = std::move(asked.body());
    request.takes_gzip =
        asked[http::field::accept_encoding].find("gzip") != beast::string_view::npos;
    request.is_gone = [fd = Socket().socket().native_handle()] { return IsClosedByPeer(fd); };
    Work work;
    if (state_->options.work_of &&
        !RunGuarded("http", [&] { work = state_->options.work_of(request); }).ok())
      return Write(kFailed, head);
    request.asker = asker_ = work.asker;
    answer_ = fair::ByteShares::Begin(state_->answers, asker_);
    if (work.load == Load::kHeavy && state_->answers->LeftFor(work.asker) < kSmallAnswer)
      return RefuseBusy("read the answers to your other requests first\n", head);
    SlowWork* const threads = state_->ThreadsFor(work.load);
    if (threads == nullptr) return Write(PageFor(*state_, request), head);
    const bool taken =
        threads->Add(asker_, [self = this->shared_from_this(), request = std::move(request), head] {
          // What was sent to change something counts, also when nobody waits for the answer.
          if (request.method != "POST" && request.is_gone()) return self->Close();
          asio::post(self->stream_.get_executor(),
                     [self, head, page = PageFor(*self->state_, request)]() mutable {
                       self->Write(std::move(page), head);
                     });
        });
    if (!taken) RefuseBusy("too many such requests at once\n", head);
  }

  void RefuseBusy(std::string why, bool head) {
    state_->CountRefusal(HttpRefusal::kBusy);
    Write({503, std::move(why), "text/plain", {{"Retry-After", "5"}}}, head);
  }

  void Write(Page page, bool head) {
    const std::uint64_t held = page.source != nullptr
                                   ? std::min<std::uint64_t>(page.source->size(), kPieceBytes)
                                   : page.body.size();
    if (held > kSmallAnswer && !answer_.Grow(held))
      return RefuseBusy("too many answers are being sent; try again later\n", head);
    if (page.body.size() > kPieceBytes && !head)
      page.source = std::make_shared<TextBody>(std::move(page.body));
    if (page.source != nullptr) return WriteSource(page, head);
    SetHead(page, response_);
    response_.body() = std::move(page.body);
    response_.prepare_payload();
    if (head) response_.body().clear();
    Socket().expires_after(SendDeadline(response_.body().size()));
    http::async_write(stream_, response_,
                      [self = this->shared_from_this()](beast::error_code error, std::size_t) {
                        if (error) return;
                        if (self->response_.keep_alive()) return self->Keep();
                        if (self->refused_) return self->Linger();
                        self->End();
                      });
  }

  // Waits for the next request, with nothing left of this one.
  void Keep() {
    response_ = {};
    answer_.Release();
    if (buffer_.size() == 0) buffer_.shrink_to_fit();
    idle_ = true;
    Read(kIdle);
    // Drain may have looked for idle connections just before this one became idle.
    if (state_->draining) CloseIfIdle();
  }

  void WriteSource(const Page& page, bool head) {
    pieces_.emplace(page.source, response_.version(), response_.keep_alive());
    SetHead(page, pieces_->response);
    pieces_->response.content_length(page.source->size());
    Socket().expires_after(kDeadline);
    http::async_write_header(
        stream_, pieces_->serializer,
        [self = this->shared_from_this(), head](beast::error_code error, std::size_t) {
          if (!error) head ? self->EndSource() : self->ReadPiece();
        });
  }

  void ReadPiece() {
    SourcePieces& pieces = *pieces_;
    if (pieces.sent == pieces.source->size()) return EndSource();
    Socket().expires_never();  // We wait for the source, not for the client.
    const auto read = [self = this->shared_from_this()] {
      absl::StatusOr<std::size_t> got = absl::InternalError("not read");
      (void)RunGuarded("http", [&] { got = self->pieces_->Read(); });
      asio::post(self->stream_.get_executor(),
                 [self, bytes = got.ok() ? *got : 0] { self->WritePiece(bytes); });
    };
    if (!state_->slow || pieces.source->never_blocks()) return read();
    if (state_->slow->Add(asker_, read)) return;
    // Too many tasks wait already. Tries again soon; the client waits meanwhile.
    pieces.timer.emplace(stream_.get_executor(), kPieceRetry);
    pieces.timer->async_wait([self = this->shared_from_this()](beast::error_code error) {
      if (!error) self->ReadPiece();
    });
  }

  void WritePiece(std::size_t bytes) {
    if (bytes == 0) return;  // The last reference to the connection goes, which closes it.
    pieces_->Offer(bytes);
    Socket().expires_after(SendDeadline(bytes));
    http::async_write(stream_, pieces_->serializer,
                      [self = this->shared_from_this()](beast::error_code error, std::size_t) {
                        if (error && error != http::error::need_buffer) return;
                        self->ReadPiece();
                      });
  }

  void EndSource() {
    const bool keep = pieces_->response.keep_alive();
    pieces_.reset();
    keep ? Keep() : End();
  }

  // Reads and discards what the client is still sending. Closing a socket with unread bytes resets
  // the connection, and the client would not get to read the refusal.
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
          if (error || self->lingered_ > kMaxLingeredBytes) return self->End();
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

  const Client client_;
  // Owned, because the stream refers to it.
  const std::shared_ptr<asio::ssl::context> tls_;
  Stream stream_;
  const std::shared_ptr<ServerState> state_;
  WaitingEntry waiting_;
  BodyReservation reservation_;
  std::string asker_;                 // Who made the request that is being answered.
  fair::ByteShares::Holding answer_;  // The memory of the answer that is being sent.
  beast::flat_buffer buffer_{kMaxHeaderBytes + 16384};  // Bounds what it may grow to.
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  bool idle_ = false;  // It waits for the next request.
  std::optional<SourcePieces> pieces_;
  bool refused_ = false;  // The request was answered before it was read to its end.
  std::size_t lingered_ = 0;
  std::array<char, 4096> discarded_;
};

}  // namespace

void ServePlain(AcceptedSocket accepted, std::shared_ptr<ServerState> state) {
  std::make_shared<Connection<PlainStream>>(std::move(accepted), std::move(state))->Start();
}

void ServeTls(AcceptedSocket accepted, std::shared_ptr<ServerState> state,
              std::shared_ptr<asio::ssl::context> tls) {
  std::make_shared<Connection<TlsStream>>(std::move(accepted), std::move(state), tls)->Start();
}

}  // namespace strobe::http
