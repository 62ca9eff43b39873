// The TLS settings of a server whose certificate is renewed while it runs.
#pragma once
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/error.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/http/server.h"
#include "common/tls/live_identity.h"

namespace strobe::http {

// Makes a new TLS context whenever the identity or the bundle of client authorities has changed,
// and hands out the same one until then. Not safe for concurrent use: only the handler that accepts
// connections calls it.
class TlsContexts {
 public:
  explicit TlsContexts(const ServerOptions& options);

  bool asks_for_certificates() const { return client_authorities_ != nullptr; }

  // The context for a new connection. When the renewed certificate or bundle cannot be used, this
  // is the last one that could; null when there was none.
  std::shared_ptr<boost::asio::ssl::context> Current();

 private:
  void AskForCertificates(boost::asio::ssl::context& context, const std::string& authorities,
                          boost::beast::error_code& error) const;

  const LiveIdentity* const identity_;
  const std::function<std::string()> client_authorities_;
  const std::vector<std::string> client_names_;
  // What current_ was made from.
  std::shared_ptr<const Identity> used_identity_;
  std::string used_authorities_;
  std::shared_ptr<boost::asio::ssl::context> current_;
};

}  // namespace strobe::http
