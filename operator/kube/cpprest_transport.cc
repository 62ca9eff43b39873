#include "operator/kube/cpprest_transport.h"

#include <cpprest/http_client.h>
#include <openssl/x509v3.h>
#include <pplx/threadpool.h>

#include <charconv>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/text/ip_text.h"
#include "operator/kube/bounded_buffer.h"

namespace strobe::kube {
namespace {

using web::http::client::http_client;
using web::http::client::http_client_config;

constexpr std::size_t kStreamBound = 256u << 10;
constexpr Nanos kPoll = std::chrono::milliseconds(200);

absl::Status FromException(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const web::http::http_exception& e) {
    if (e.error_code() == std::errc::timed_out) return absl::DeadlineExceededError(e.what());
    return absl::UnavailableError(e.what());
  } catch (const std::exception& e) {
    return absl::UnavailableError(e.what());
  }
}

// Configures trust and identity of a new connection. The files are read for each connection, so
// rotated certificates are used without a restart.
void Configure(boost::asio::ssl::context& context, const Credentials& credentials,
               const std::string& host) {
  const auto load = [](const FileOrData& value) {
    const absl::StatusOr<std::string> bytes = value.Read();
    if (!bytes.ok()) throw web::http::http_exception(MessageOf(bytes.status()));
    return *bytes;
  };
  if (!credentials.ca.empty()) {
    const std::string ca = load(credentials.ca);
    context.add_certificate_authority(boost::asio::buffer(ca));
  }
  if (!credentials.certificate.empty()) {
    const std::string certificate = load(credentials.certificate), key = load(credentials.key);
    context.use_certificate_chain(boost::asio::buffer(certificate));
    context.use_private_key(boost::asio::buffer(key), boost::asio::ssl::context::pem);
  }
  // Replaces the library's check, which accepts the common name if no alternative name matches.
  X509_VERIFY_PARAM* verify = SSL_CTX_get0_param(context.native_handle());
  if (X509_VERIFY_PARAM_set1_ip_asc(verify, host.c_str()) != 1)
    X509_VERIFY_PARAM_set1_host(verify, host.c_str(), host.size());
}

std::optional<Nanos> RetryAfterOf(const web::http::http_response& response) {
  const auto header = response.headers().find("Retry-After");
  if (header == response.headers().end()) return std::nullopt;
  int seconds = 0;
  const std::string& text = header->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return std::chrono::seconds(std::min(seconds, 60));
}

std::optional<WallTime> DateOf(const web::http::http_response& response) {
  const auto header = response.headers().find("Date");
  absl::Time time;
  std::string error;
  if (header == response.headers().end() ||
      !absl::ParseTime("%a, %d %b %E4Y %H:%M:%S GMT", header->second, &time, &error))
    return std::nullopt;
  return FromUnixNanos(absl::ToUnixNanos(time));
}

// Removes the brackets around an IPv6 host: the library resolves the host as it is in the URI and
// does not know brackets. It then writes the Host header without brackets as well, which Go's
// servers accept. We set no header of our own, because the library would compare it with the
// server's certificate.
web::uri ForTheLibrary(const web::uri& server) {
  const std::string host(WithoutBrackets(server.host()));
  return host == server.host() ? server : web::uri_builder(server).set_host(host).to_uri();
}

class CpprestTransport final : public Transport {
 public:
  CpprestTransport(const Clock& clock, Credentials credentials, const web::uri& server)
      : clock_(clock),
        credentials_(std::make_shared<const Credentials>(std::move(credentials))),
        server_(ForTheLibrary(server)),
        token_(clock, credentials_->token),
        unary_(server_, Config(std::chrono::seconds(30))) {}

  absl::StatusOr<HttpResponse> Unary(const HttpRequest& request) override {
    struct Pending {
      Notification done;
      absl::StatusOr<HttpResponse> result;
    };
    auto pending = std::make_shared<Pending>();
    ASSIGN_OR_RETURN(web::http::http_request message, Message(request));
    pplx::cancellation_token_source cancel;
    try {
      unary_.request(message, cancel.get_token())
          .then([](web::http::http_response response) {
            return response.extract_utf8string(true).then([response](std::string body) {
              return HttpResponse{.status = response.status_code(),
                                  .body = std::move(body),
                                  .retry_after = RetryAfterOf(response),
                                  .date = DateOf(response)};
            });
          })
          .then([pending](pplx::task<HttpResponse> task) {
            try {
              pending->result = task.get();
            } catch (...) {
              pending->result = FromException(std::current_exception());
            }
            pending->done.Notify();
          });
    } catch (...) {
      return FromException(std::current_exception());
    }
    // The library's timer restarts at every step, so this is a limit on the whole call. A hanging
    // name lookup is not even ended by cancellation, so nobody waits for it.
    if (!pending->done.WaitFor(request.timeout)) {
      cancel.cancel();
      return absl::DeadlineExceededError(
          StrCat(request.method, " ", request.path, " got no answer in time"));
    }
    if (pending->result.ok() && pending->result->status == 401) token_.OnRefused();
    return pending->result;
  }

  absl::StatusOr<HttpResponse> Read(const HttpRequest& request,
                                    const std::function<bool(std::string_view)>& chunk) override {
    const MonoTime deadline = clock_.MonoNow() + request.timeout;
    // Many lists are read, so they use the connections of other calls.
    return Receive(
        unary_, request,
        [&]() -> absl::Status {
          if (clock_.MonoNow() < deadline) return absl::OkStatus();
          return absl::DeadlineExceededError(
              StrCat(request.method, " ", request.path, " got no whole answer in time"));
        },
        chunk);
  }

  absl::StatusOr<HttpResponse> Stream(const HttpRequest& request, const Stop& stop,
                                      const std::function<bool(std::string_view)>& chunk) override {
    // Uses a separate client, because a stream has another timeout than a call.
    std::optional<http_client> client;
    try {
      client.emplace(server_, Config(request.timeout));
    } catch (...) {
      return FromException(std::current_exception());
    }
    return Receive(
        *client, request,
        [&] { return stop.is_set() ? absl::CancelledError("stopped") : absl::OkStatus(); }, chunk);
  }

 private:
  // Receives until the answer has ended, `goes_on` returns an error or `chunk` returns false.
  absl::StatusOr<HttpResponse> Receive(http_client& client, const HttpRequest& request,
                                       const std::function<absl::Status()>& goes_on,
                                       const std::function<bool(std::string_view)>& chunk) {
    struct Pending {
      Mutex mutex;
      bool headers ABSL_GUARDED_BY(mutex) = false;
      HttpResponse response ABSL_GUARDED_BY(mutex);
      absl::Status error ABSL_GUARDED_BY(mutex);
    };
    auto pending = std::make_shared<Pending>();
    auto buffer = std::make_shared<BoundedBuffer>(kStreamBound);
    ASSIGN_OR_RETURN(web::http::http_request message, Message(request));
    message.set_response_stream(
        concurrency::streams::streambuf<std::uint8_t>(buffer).create_ostream());
    pplx::cancellation_token_source cancel;
    try {
      client.request(message, cancel.get_token())
          .then([pending](web::http::http_response response) {
            {
              MutexLock lock(&pending->mutex);
              pending->headers = true;
              pending->response.status = response.status_code();
              pending->response.retry_after = RetryAfterOf(response);
              pending->response.date = DateOf(response);
            }
            return response.content_ready();
          })
          .then([pending, buffer](pplx::task<web::http::http_response> task) {
            try {
              task.get();
            } catch (...) {
              MutexLock lock(&pending->mutex);
              pending->error = FromException(std::current_exception());
            }
            buffer->Finish();
          });
    } catch (...) {
      return FromException(std::current_exception());
    }
    const auto give_up = [&](absl::Status why) {
      cancel.cancel();
      buffer->Finish();
      return why;
    };
    std::string piece, refusal;
    while (true) {
      const BoundedBuffer::Take took = buffer->TakeFor(kPoll, piece);
      if (absl::Status ends = goes_on(); !ends.ok()) return give_up(std::move(ends));
      if (took == BoundedBuffer::Take::kEnd) break;
      if (took == BoundedBuffer::Take::kNothingYet) continue;
      bool refused = false;
      {
        // The body may come before the thread that tells of the headers.
        MutexLock lock(&pending->mutex);
        pending->mutex.AwaitFor(kPoll, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(pending->mutex) {
          return pending->headers;
        });
        refused = pending->headers && pending->response.status != 200;
      }
      if (refused)
        refusal += piece.substr(0, (1u << 20) - std::min<std::size_t>(refusal.size(), 1u << 20));
      else if (!chunk(piece))
        return give_up(absl::CancelledError("the reader ended the stream"));
    }
    MutexLock lock(&pending->mutex);
    if (!pending->error.ok()) return pending->error;
    if (pending->response.status == 401) token_.OnRefused();
    pending->response.body = std::move(refusal);
    return pending->response;
  }

  http_client_config Config(Nanos timeout) const {
    http_client_config config;
    config.set_timeout(timeout);
    // A redirect would send the token to another server.
    config.set_max_redirects(0);
    config.set_ssl_context_callback(
        [credentials = credentials_, host = server_.host()](boost::asio::ssl::context& context) {
          Configure(context, *credentials, host);
        });
    return config;
  }

  absl::StatusOr<web::http::http_request> Message(const HttpRequest& request) {
    ASSIGN_OR_RETURN(const std::string token, token_.Current());
    web::http::http_request message(request.method);
    try {
      message.set_request_uri(web::uri(request.path));
    } catch (const std::exception& error) {
      return absl::InvalidArgumentError(StrCat("path ", request.path, ": ", error.what()));
    }
    message.headers().add("User-Agent", StrCat("strobe-operator/", kVersion));
    message.headers().add("Accept", "application/json");
    for (const auto& [name, value] : request.headers) message.headers().add(name, value);
    if (!token.empty()) message.headers().add("Authorization", "Bearer " + token);
    if (!request.body.empty()) message.set_body(request.body, request.content_type);
    return message;
  }

  const Clock& clock_;
  const std::shared_ptr<const Credentials> credentials_;
  const web::uri server_;
  TokenSource token_;
  http_client unary_;
};

}  // namespace

void InitCpprest() { crossplat::threadpool::initialize_with_threads(4); }

absl::StatusOr<std::unique_ptr<Transport>> MakeCpprestTransport(const Clock& clock,
                                                                Credentials credentials) {
  try {
    const web::uri server(credentials.server);
    return std::make_unique<CpprestTransport>(clock, std::move(credentials), server);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(StrCat("server ", credentials.server, ": ", error.what()));
  }
}

}  // namespace strobe::kube
