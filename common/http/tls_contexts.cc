#include "common/http/tls_contexts.h"

#include <boost/asio/ssl.hpp>

#include "common/tls/peer.h"

namespace strobe::http {

namespace asio = boost::asio;
namespace beast = boost::beast;

TlsContexts::TlsContexts(const ServerOptions& options)
    : identity_(options.identity),
      client_authorities_(options.client_authorities),
      client_names_(options.client_names) {}

std::shared_ptr<asio::ssl::context> TlsContexts::Current() {
  const std::shared_ptr<const Identity> identity = identity_->Get();
  const std::string authorities = client_authorities_ ? client_authorities_() : "";
  if (identity == used_identity_ && authorities == used_authorities_) return current_;
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  // Idle connections give their buffers back; clients keep many of them open.
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  beast::error_code error;
  context->use_certificate_chain(asio::buffer(identity->own.certificate), error);
  if (!error)
    context->use_private_key(asio::buffer(identity->own.key), asio::ssl::context::pem, error);
  if (!error && client_authorities_) AskForCertificates(*context, authorities, error);
  if (error) return current_;
  used_identity_ = identity;
  used_authorities_ = authorities;
  current_ = std::move(context);
  return current_;
}

void TlsContexts::AskForCertificates(asio::ssl::context& context, const std::string& authorities,
                                     beast::error_code& error) const {
  // Disables session resumption, so that each connection shows its certificate, which may have
  // expired meanwhile. OpenSSL would otherwise fail the handshake of a client that tries to resume.
  SSL_CTX_set_session_cache_mode(context.native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.native_handle(), SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context.native_handle(), 0);
  context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, error);
  if (!error) context.add_certificate_authority(asio::buffer(authorities), error);
  if (error || client_names_.empty()) return;
  context.set_verify_callback(
      [names = client_names_](bool valid, asio::ssl::verify_context& certificate) {
        return valid && CarriesCommonName(certificate.native_handle(), names);
      },
      error);
}

}  // namespace strobe::http
