#include "common/http/server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/error.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/guard.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"
#include "common/http/connection.h"
#include "common/http/tls_contexts.h"
#include "common/text/ip_text.h"

namespace strobe::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;

// How long no connection is accepted after one could not be, as when no file can be opened. The
// connection still waits, so that another try at once would fail too, without end.
constexpr std::chrono::milliseconds kAcceptRetry{50};

// Gives an IPv4 client of a socket for both families its IPv4 address, so that it is recognized as
// the same client on every socket.
std::string TextOf(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

class BeastServer final : public Server {
 public:
  BeastServer(const ServerOptions& options, std::map<std::string, Handler> pages, Handler otherwise)
      : acceptor_(context_), accept_retry_(context_), tls_(options) {
    state_->options = options;
    state_->pages = std::move(pages);
    state_->otherwise = std::move(otherwise);
    state_->answers = std::make_shared<fair::ByteShares>(options.answers);
    if (options.work_of) state_->slow.emplace(options.slow);
    if (options.work_of && options.heavy) state_->heavy.emplace(*options.heavy);
    if (options.work_of && options.brief) state_->brief.emplace(*options.brief);
  }
  ~BeastServer() override {
    if (state_->slow) state_->slow->Stop();
    if (state_->heavy) state_->heavy->Stop();
    if (state_->brief) state_->brief->Stop();
    context_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Listen() {
    const std::string& listen = state_->options.listen;
    if (!IsListenAddress(listen))
      return absl::InvalidArgumentError(
          StrCat("\"", listen, "\" is not a host:port with a port from 0 to 65535"));
    beast::error_code error;
    tcp::resolver resolver(context_);
    const auto found =
        resolver.resolve(std::string(HostOf(listen)), listen.substr(listen.rfind(':') + 1),
                         tcp::resolver::passive, error);
    if (error || found.empty())
      return absl::InvalidArgumentError(StrCat("cannot listen on ", listen, ": ", error.message()));
    tcp::endpoint endpoint = found.begin()->endpoint();
    const bool any_v6 = endpoint.address().is_v6() && endpoint.address().is_unspecified();
    acceptor_.open(endpoint.protocol(), error);
    if (any_v6 && error == asio::error::address_family_not_supported) {
      // This machine has no IPv6.
      endpoint = {tcp::v4(), endpoint.port()};
      acceptor_.open(endpoint.protocol(), error);
    } else if (!error && any_v6) {
      // [::] means both families, also on machines where net.ipv6.bindv6only is set.
      acceptor_.set_option(asio::ip::v6_only(false), error);
    }
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error)
      return absl::UnavailableError(StrCat("cannot listen on ", listen, ": ", error.message()));
    Accept();
    for (int i = 0; i < state_->options.threads; ++i)
      threads_.emplace_back([this] { RunThread("http", [this] { context_.run(); }); });
    return absl::OkStatus();
  }
  int port() const override { return acceptor_.local_endpoint().port(); }
  void Drain() override {
    state_->draining = true;
    std::vector<std::shared_ptr<WaitingConnection>> waiting;
    {
      MutexLock lock(&state_->mutex);
      for (const auto& connection : state_->waiting) waiting.push_back(connection.lock());
    }
    for (const auto& connection : waiting)
      if (connection != nullptr) connection->CloseIfIdle();
  }

 private:
  void Accept() {
    acceptor_.async_accept(asio::make_strand(context_),
                           [this](beast::error_code error, tcp::socket socket) {
                             if (error == asio::error::operation_aborted) return;
                             if (error) return AcceptLater();
                             // An exception here must not end the accepting.
                             (void)RunGuarded("http", [&] { Take(std::move(socket)); });
                             Accept();
                           });
  }
  void AcceptLater() {
    accept_retry_.expires_after(kAcceptRetry);
    accept_retry_.async_wait([this](beast::error_code error) {
      if (!error) Accept();
    });
  }

  void Take(tcp::socket socket) {
    const bool tls = state_->options.identity != nullptr;
    std::shared_ptr<asio::ssl::context> context = tls ? tls_.Current() : nullptr;
    if (tls && context == nullptr) return;
    if (!CountOneMore()) return;
    beast::error_code ignored;
    // Without this option, the first answer over TLS would wait some 40 ms, until the client has
    // acknowledged the session tickets that follow the handshake.
    socket.set_option(tcp::no_delay(true), ignored);
    const std::string source = TextOf(socket.remote_endpoint(ignored).address());
    if (tls)
      ServeTls({std::move(socket), source, tls_.asks_for_certificates()}, state_,
               std::move(context));
    else
      ServePlain({.socket = std::move(socket), .source = source}, state_);
  }

  // Makes room by closing the connection that has waited longest for its client. False if there
  // are too many connections and all are at work; the new one is then turned away.
  bool CountOneMore() {
    std::shared_ptr<WaitingConnection> evicted;
    {
      MutexLock lock(&state_->mutex);
      auto& waiting = state_->waiting;
      if (state_->connections >= state_->options.max_connections) {
        state_->CountRefusal(HttpRefusal::kCrowded);
        if (waiting.empty()) return false;
        evicted = waiting.front().lock();
        // Closing takes a moment. Moved to the end, it is not chosen again in the meantime.
        waiting.splice(waiting.end(), waiting, waiting.begin());
      }
      ++state_->connections;
    }
    if (evicted != nullptr) evicted->Close();
    return true;
  }

  asio::io_context context_;
  tcp::acceptor acceptor_;
  asio::steady_timer accept_retry_;
  TlsContexts tls_;  // Used by the accept handler only; at most one runs at a time.
  const std::shared_ptr<ServerState> state_ = std::make_shared<ServerState>();
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      std::map<std::string, Handler> pages,
                                                      Handler otherwise) {
  auto server = std::make_unique<BeastServer>(options, std::move(pages), std::move(otherwise));
  if (const absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace strobe::http
