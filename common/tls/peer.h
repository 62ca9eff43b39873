// Whether the other side of a connection is who it should be. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/tls/certificate.h"

struct x509_store_ctx_st;  // OpenSSL's.

namespace strobe {

enum class PeerVerdict {
  kOk,
  kNoCertificate,
  kUntrusted,  // No authority of ours certified it, or for another use.
  kExpired,    // Or not valid yet.
  kWrongName,  // Ours, but somebody else's.
};

// As a metric's label: "ok", "no_certificate", "untrusted", "expired", "wrong_name".
std::string_view Name(PeerVerdict verdict);

struct PeerRule {
  std::string roots{};  // PEM bundle of the authorities to trust.
  std::string name{};   // DNS name that the certificate must carry, letter for letter.
  Usage usage = Usage::kServer;
};

// While OpenSSL judges a chain: whether the peer's own certificate has one of these common names.
// True for the certificates above it, which have names of their own.
bool CarriesCommonName(x509_store_ctx_st* context, const std::vector<std::string>& names);

// `certificate` is the peer's own, in PEM; it has proved to hold the key in the handshake.
PeerVerdict JudgePeer(const std::string& certificate, const PeerRule& rule, WallTime now);

}  // namespace strobe
