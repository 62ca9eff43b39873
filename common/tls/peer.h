// Decides whether the peer of a connection is the expected one. Pure functions.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/tls/certificate.h"

struct x509_store_ctx_st;  // OpenSSL's X509_STORE_CTX.

namespace strobe {

enum class PeerVerdict {
  kOk,
  kNoCertificate,
  kUntrusted,  // No trusted authority certified it for this usage.
  kExpired,    // Expired, or not yet valid.
  kWrongName,  // Trusted, but issued for another name.
};

// The verdict as a metric label: "ok", "no_certificate", "untrusted", "expired", "wrong_name".
std::string_view Name(PeerVerdict verdict);

// The verdicts that refuse a peer.
inline constexpr std::array kRefusals = {PeerVerdict::kNoCertificate, PeerVerdict::kUntrusted,
                                         PeerVerdict::kExpired, PeerVerdict::kWrongName};

struct PeerRule {
  std::string roots{};  // PEM bundle of the trusted authorities.
  std::string name{};   // DNS name that the certificate must contain exactly.
  Usage usage = Usage::kServer;
};

// For OpenSSL's verification callback: true if the peer's own certificate has one of these common
// names. Always true for the other certificates of the chain, which have names of their own.
bool CarriesCommonName(x509_store_ctx_st* context, const std::vector<std::string>& names);

// `certificate` is the peer's own certificate in PEM. The TLS handshake must have proved that the
// peer holds its key.
PeerVerdict JudgePeer(const std::string& certificate, const PeerRule& rule, WallTime now);

}  // namespace strobe
