#include "common/tls/openssl_handles.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "common/base/strings.h"

namespace strobe::openssl {
namespace {

Bio ReadFrom(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

template <typename Write>
std::string Written(const Write& write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  write(bio.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

}  // namespace

absl::Status Failure(std::string_view what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  const std::string text =
      StrCat(what, reason == nullptr ? "" : ": ", reason == nullptr ? "" : reason);
  ERR_clear_error();
  return absl::InternalError(text);
}

absl::StatusOr<Key> ReadKey(const std::string& pem) {
  Key key(PEM_read_bio_PrivateKey(ReadFrom(pem).get(), nullptr, nullptr, nullptr));
  if (key == nullptr) return Failure("not a private key in PEM");
  return key;
}

absl::StatusOr<SigningRequest> ReadSigningRequest(const std::string& pem) {
  SigningRequest request(PEM_read_bio_X509_REQ(ReadFrom(pem).get(), nullptr, nullptr, nullptr));
  if (request == nullptr) return Failure("not a certificate signing request in PEM");
  return request;
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& pem) {
  const Bio bio = ReadFrom(pem);
  std::vector<Certificate> certificates;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
    certificates.emplace_back(next);
  if (certificates.empty()) return Failure("no certificate in PEM");
  ERR_clear_error();  // OpenSSL reports the end of the text as an error.
  return certificates;
}

std::string ToPem(const Key& key) {
  return Written([&](BIO* bio) {
    PEM_write_bio_PKCS8PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string ToPem(const SigningRequest& request) {
  return Written([&](BIO* bio) { PEM_write_bio_X509_REQ(bio, request.get()); });
}

std::string ToPem(const Certificate& certificate) {
  return Written([&](BIO* bio) { PEM_write_bio_X509(bio, certificate.get()); });
}

}  // namespace strobe::openssl
