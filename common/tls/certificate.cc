#include "common/tls/certificate.h"

#include <openssl/ec.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/tls/openssl_handles.h"

namespace strobe {
namespace {

using namespace openssl;

constexpr long kVersion3 = 2;  // X.509 encodes version 3 as 2.
constexpr std::size_t kMaxRequestBytes = 8192;

std::time_t Seconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

bool IsP256(EVP_PKEY* key) {
  std::array<char, 64> group{};
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
         EVP_PKEY_get_group_name(key, group.data(), group.size(), nullptr) == 1 &&
         std::string_view(group.data()) == "prime256v1";
}

absl::Status AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1)
    return Failure(StrCat("certificate extension ", value));
  return absl::OkStatus();
}

// Returns a certificate with serial number, key, subject and validity. The caller adds the
// extensions and signs it.
absl::StatusOr<Certificate> Begin(EVP_PKEY* key, const std::string& common_name,
                                  const Validity& validity) {
  Certificate certificate(X509_new());
  // The serial number is random and positive (RFC 5280, 4.1.2.2): the top bit is cleared and the
  // next one is set.
  std::array<unsigned char, 16> serial{};
  if (RAND_bytes(serial.data(), serial.size()) != 1) return Failure("random number");
  serial[0] = static_cast<unsigned char>((serial[0] & 0x7f) | 0x40);
  BIGNUM* number = BN_bin2bn(serial.data(), serial.size(), nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get()));
  BN_free(number);
  X509_NAME* name = X509_get_subject_name(certificate.get());
  if (X509_set_version(certificate.get(), kVersion3) != 1 ||
      X509_set_pubkey(certificate.get(), key) != 1 ||
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(common_name.data()),
                                 static_cast<int>(common_name.size()), -1, 0) != 1 ||
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), Seconds(validity.from)) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), Seconds(validity.until)) == nullptr) {
    return Failure("certificate");
  }
  return certificate;
}

// OpenSSL takes the names as a comma-separated list of "type:value". Other characters could add
// entries to that list.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.size() <= 253 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

absl::StatusOr<WallTime> ToWallTime(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return Failure("time in certificate");
  return WallTime{std::chrono::seconds(timegm(&parts))};
}

}  // namespace

Validity ValidFor(Nanos lifetime, WallTime now) {
  const auto whole = [](WallTime time) { return std::chrono::floor<std::chrono::seconds>(time); };
  return {whole(now - kClockLeeway), whole(now + lifetime)};
}

WallTime RenewalTime(const Validity& validity) {
  const WallTime from = validity.from + kClockLeeway;
  return from + (validity.until - from) * 2 / 3;
}

absl::StatusOr<std::string> NewKey() {
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failure("new key");
  return ToPem(key);
}

absl::StatusOr<std::string> NewSigningRequest(const std::string& key) {
  ASSIGN_OR_RETURN(const Key signer, ReadKey(key));
  const SigningRequest request(X509_REQ_new());
  if (X509_REQ_set_pubkey(request.get(), signer.get()) != 1 ||
      X509_REQ_sign(request.get(), signer.get(), EVP_sha256()) == 0) {
    return Failure("signing request");
  }
  return ToPem(request);
}

absl::StatusOr<KeyPair> NewAuthority(const std::string& common_name, const Validity& validity) {
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failure("new key");
  ASSIGN_OR_RETURN(const Certificate certificate, Begin(key.get(), common_name, validity));
  X509* const own = certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(own));
  RETURN_IF_ERROR(AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  RETURN_IF_ERROR(AddExtension(own, own, NID_key_usage, "critical,keyCertSign,cRLSign"));
  // Successive authorities have the same name. The subject key identifier distinguishes them.
  RETURN_IF_ERROR(AddExtension(own, own, NID_subject_key_identifier, "hash"));
  if (X509_sign(own, key.get(), EVP_sha256()) == 0) return Failure("signature");
  return KeyPair{ToPem(certificate), ToPem(key)};
}

absl::StatusOr<std::string> Certify(const KeyPair& authority, const std::string& signing_request,
                                    const Claim& claim) {
  if (!std::all_of(claim.dns_names.begin(), claim.dns_names.end(), IsPlainName))
    return absl::InvalidArgumentError("a name to certify is not a DNS name");
  if (signing_request.size() > kMaxRequestBytes)
    return absl::InvalidArgumentError("the signing request is too long");
  const absl::StatusOr<SigningRequest> request = ReadSigningRequest(signing_request);
  if (!request.ok()) return absl::InvalidArgumentError(request.status().message());
  EVP_PKEY* const key = X509_REQ_get0_pubkey(request->get());
  if (key == nullptr || !IsP256(key))
    return absl::InvalidArgumentError("the signing request's key is not a P-256 key");
  // The signature proves that the requester holds the private key.
  if (X509_REQ_verify(request->get(), key) != 1)
    return absl::InvalidArgumentError("the signing request is not signed with its own key");

  ASSIGN_OR_RETURN(const Key signer, ReadKey(authority.key));
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain, ReadCertificates(authority.certificate));
  X509* const issuer = chain.front().get();
  ASSIGN_OR_RETURN(const Certificate certificate, Begin(key, claim.common_name, claim.validity));
  X509* const own = certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(issuer));
  RETURN_IF_ERROR(AddExtension(own, issuer, NID_basic_constraints, "critical,CA:FALSE"));
  RETURN_IF_ERROR(AddExtension(own, issuer, NID_key_usage, "critical,digitalSignature"));
  RETURN_IF_ERROR(AddExtension(own, issuer, NID_ext_key_usage,
                               claim.usage == Usage::kServer ? "serverAuth" : "clientAuth"));
  RETURN_IF_ERROR(AddExtension(own, issuer, NID_authority_key_identifier, "keyid:always"));
  std::string names;
  for (const std::string& name : claim.dns_names)
    names += StrCat(names.empty() ? "" : ",", "DNS:", name);
  RETURN_IF_ERROR(AddExtension(own, issuer, NID_subject_alt_name, names));
  if (X509_sign(own, signer.get(), EVP_sha256()) == 0) return Failure("signature");
  return ToPem(certificate);
}

absl::StatusOr<KeyPair> NewCertificate(const KeyPair& authority, const Claim& claim) {
  KeyPair pair;
  ASSIGN_OR_RETURN(pair.key, NewKey());
  ASSIGN_OR_RETURN(const std::string request, NewSigningRequest(pair.key));
  ASSIGN_OR_RETURN(pair.certificate, Certify(authority, request, claim));
  return pair;
}

absl::StatusOr<Validity> ValidityOf(const std::string& certificate) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain, ReadCertificates(certificate));
  Validity validity;
  ASSIGN_OR_RETURN(validity.from, ToWallTime(X509_get0_notBefore(chain.front().get())));
  ASSIGN_OR_RETURN(validity.until, ToWallTime(X509_get0_notAfter(chain.front().get())));
  return validity;
}

}  // namespace strobe
