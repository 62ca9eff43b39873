#include "common/http/http_get.h"

#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "common/base/strings.h"

namespace strobe::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

// One request; each step starts the next one.
struct Exchange {
  asio::io_context context{1};
  beast::tcp_stream stream{context};
  beast::flat_buffer buffer{64 << 10};
  http::request<http::empty_body> request{};
  http::response_parser<http::string_body> parser{};
  beast::error_code error = asio::error::timed_out;

  void Connect(int port) {
    stream.async_connect(
        asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port)),
        [this](beast::error_code code) { code ? End(code) : Write(); });
  }
  void Write() {
    http::async_write(stream, request,
                      [this](beast::error_code code, std::size_t) { code ? End(code) : Read(); });
  }
  void Read() {
    http::async_read(stream, buffer, parser,
                     [this](beast::error_code code, std::size_t) { End(code); });
  }
  void End(beast::error_code code) { error = code; }
};

}  // namespace

absl::StatusOr<int> GetFromLocalhost(int port, const std::string& path, Nanos timeout) {
  Exchange exchange;
  exchange.request = {http::verb::get, path, 11};
  exchange.request.set(http::field::host, "localhost");
  exchange.request.set(http::field::connection, "close");
  exchange.parser.body_limit(64 << 10);
  exchange.Connect(port);
  exchange.context.run_for(timeout);
  if (!exchange.error) return static_cast<int>(exchange.parser.get().result_int());
  const std::string what = StrCat("port ", port, ": ", exchange.error.message());
  if (exchange.error == asio::error::timed_out) return absl::DeadlineExceededError(what);
  return absl::UnavailableError(what);
}

}  // namespace strobe::http
