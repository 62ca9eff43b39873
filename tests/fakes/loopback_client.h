// A client of servers on this machine that sends bytes and returns all that is answered.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "common/base/ending_signals.h"
#include "common/tls/certificate.h"
#include "common/tls/openssl_handles.h"

namespace strobe {

inline void Connect(int fd, int port) {
  IgnoreBrokenPipes();  // A server may end the connection before all is sent.
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

inline int Dial(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  Connect(fd, port);
  return fd;
}

inline std::string Exchange(int port, const std::string& request) {
  const int fd = Dial(port);
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof buffer)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(n));
  close(fd);
  return answer;
}

struct TlsClient {
  std::string roots{};  // What it trusts.
  std::string name{};   // The server's name.
  KeyPair own{};        // Shown to the server; empty = no certificate.

  // Empty if the handshake fails.
  std::string Exchange(int port, const std::string& request) const {
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
    const auto trusted = openssl::ReadCertificates(roots);
    for (const openssl::Certificate& root : *trusted)
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root.get());
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    if (!own.key.empty()) {
      SSL_CTX_use_certificate(context, openssl::ReadCertificates(own.certificate)->front().get());
      SSL_CTX_use_PrivateKey(context, openssl::ReadKey(own.key)->get());
    }
    SSL* ssl = SSL_new(context);
    const int fd = Dial(port);
    SSL_set_fd(ssl, fd);
    SSL_set1_host(ssl, name.c_str());
    std::string answer;
    if (SSL_connect(ssl) == 1) {
      SSL_write(ssl, request.data(), static_cast<int>(request.size()));
      SSL_shutdown(ssl);  // Nothing more is sent, so that the server need not wait for it.
      char buffer[4096];
      for (int n = 0; (n = SSL_read(ssl, buffer, sizeof buffer)) > 0;)
        answer.append(buffer, static_cast<std::size_t>(n));
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
    return answer;
  }
};

}  // namespace strobe
